//! The command line of abide: arguments in; stdout, stderr and an exit status out.

mod cli;
mod report;

fn main() -> ! {
    cli::main()
}
