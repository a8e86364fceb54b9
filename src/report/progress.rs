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

/// Returns a place on stderr for a table that is drawn anew now and then.
pub fn drawn_anew() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is well formed"));
    bar
}

/// Returns a bar on stderr for `count` operations, with the rate and the time that is left.
pub fn bar(count: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(count as u64), ProgressDrawTarget::stderr_with_hz(10));
    // Writing into the bar's own buffer does not fail.
    let rate = |state: &ProgressState, out: &mut dyn Write| {
        let _ = write!(out, "{:.1}/s", state.per_sec());
    };
    let left = |state: &ProgressState, out: &mut dyn Write| {
        let _ = match state.pos() {
            0 => write!(out, "?"),
            _ => write!(out, "{}", show_rounded(Duration::from_secs(state.eta().as_secs()))),
        };
    };
    let style = ProgressStyle::with_template("{spinner} [{bar:24}] {pos}/{len} {rate}, {left} left{msg}")
        .expect("the template is well formed")
        .with_key("rate", rate)
        .with_key("left", left)
        .progress_chars("=> ");
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Returns a bar on stderr for samples: of `count` where that is known, else of the time that is left.
pub fn samples(count: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(count, ProgressDrawTarget::stderr_with_hz(4));
    let template = if count.is_some() { "{spinner} [{bar:24}] {pos}/{len}{msg}" } else { "{spinner} {pos}{msg}" };
    let style = ProgressStyle::with_template(template).expect("the template is well formed").progress_chars("=> ");
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}
