//! The `abide` command.

fn main() {}
