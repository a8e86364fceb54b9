//! What a bug says: never a secret, never a backtrace unless asked for.

use super::exit::Exit;
use abide::engine::secret::Mask;
use std::backtrace::Backtrace;
use std::sync::{Mutex, PoisonError};

static KNOWN: Mutex<Vec<Mask>> = Mutex::new(Vec::new());

/// Hides these secrets, too, in what a bug says.
pub fn hide(mask: &Mask) {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).push(mask.clone());
}

/// Makes every panic end the process with a message of ours.
pub fn install(debug: bool) {
    std::panic::set_hook(Box::new(move |info| {
        let message = format!("{info}");
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let hidden = known.iter().fold(message, |message, mask| mask.hide(&message));
        eprintln!("error: a bug in abide: {hidden}");
        eprintln!("hint: if a request was sent, `abide status KEY` tells what is known; please report this");
        if debug {
            eprintln!("{}", Backtrace::force_capture());
        }
        std::process::exit(Exit::Bug.code());
    }));
}
