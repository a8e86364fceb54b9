//! Colours, or none.

/// Whether texts are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// With ANSI colours.
    Colours,
    /// As they are.
    Plain,
}

impl Paint {
    /// Returns `text` in red: what needs a person.
    pub fn red(self, text: &str) -> String {
        self.wrap("31;1", text)
    }

    /// Returns `text` in yellow: what is not certain.
    pub fn yellow(self, text: &str) -> String {
        self.wrap("33;1", text)
    }

    /// Returns `text` in green: what is done.
    pub fn green(self, text: &str) -> String {
        self.wrap("32;1", text)
    }

    /// Returns `text` in bold: what it is about.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Paint::Colours => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Paint::Plain => text.to_owned(),
        }
    }
}
