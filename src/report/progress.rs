//! The spinner: what is going on, and the deadline counting down.

use abide::engine::units::show_rounded;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::time::Duration;

/// Returns a spinner on stderr that counts `left` down from now on.
pub fn spinner(left: Duration) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let countdown = move |state: &ProgressState, out: &mut dyn Write| {
        let seconds = left.saturating_sub(state.elapsed()).as_millis().div_ceil(1000);
        // Writing into the bar's own buffer does not fail.
        let _ = write!(out, "{}", show_rounded(Duration::from_secs(seconds as u64)));
    };
    let style = ProgressStyle::with_template("{spinner} {msg}, {countdown} left")
        .expect("the template is well formed")
        .with_key("countdown", countdown);
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
