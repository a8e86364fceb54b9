//! stderr, shared by the run, the spinner and the thread that takes signals.

use crate::report::paint::Paint;
use indicatif::ProgressBar;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Talk {
    /// Errors and the verdict.
    Quiet,
    /// Attempts, waits, warnings too.
    Normal,
    /// Stages too.
    Verbose,
}

/// stderr. Clones share it.
#[derive(Clone, Debug)]
pub struct Screen {
    /// How much is said.
    pub talk: Talk,
    /// How it is coloured.
    pub paint: Paint,
    spinner: Arc<Mutex<Option<ProgressBar>>>,
}

impl Screen {
    /// Returns stderr without a spinner.
    pub fn new(talk: Talk, paint: Paint) -> Screen {
        Screen { talk, paint, spinner: Arc::default() }
    }

    /// Prints `text`, whatever was asked for.
    pub fn say(&self, text: &str) {
        // In one piece, so that the lines of several processes stay whole.
        let line = format!("{text}\n");
        let print = || {
            // A closed stderr is no reason to lose the outcome: nothing better can be done than go on.
            let _ = io::stderr().lock().write_all(line.as_bytes());
        };
        match &*self.spinner.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Prints `text` unless `-q` was given.
    pub fn talk(&self, text: &str) {
        if self.talk >= Talk::Normal {
            self.say(text);
        }
    }

    /// Prints a warning unless `-q` was given.
    pub fn warn(&self, text: &str) {
        self.talk(&format!("{} {text}", self.paint.yellow("warning:")));
    }

    /// Shows a spinner under the lines until [`Screen::calm`].
    pub fn spin(&self, bar: ProgressBar) {
        *self.spinner.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar);
    }

    /// Changes the words beside the spinner, if there is one.
    pub fn doing(&self, words: &str) {
        if let Some(bar) = &*self.spinner.lock().unwrap_or_else(PoisonError::into_inner) {
            bar.set_message(words.to_owned());
        }
    }

    /// Counts one more on the bar, if there is one, with these words behind it.
    pub fn count(&self, words: impl FnOnce() -> String) {
        if let Some(bar) = &*self.spinner.lock().unwrap_or_else(PoisonError::into_inner) {
            bar.set_message(words());
            bar.inc(1);
        }
    }

    /// Prints a question, the cursor behind it.
    pub fn ask(&self, question: &str) {
        // A closed stderr: whoever cannot read the question does not say yes.
        let _ = io::stderr().lock().write_all(question.as_bytes());
    }

    /// Takes the spinner away.
    pub fn calm(&self) {
        if let Some(bar) = self.spinner.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }
}
