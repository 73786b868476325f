//! Colours by meaning. Nothing is said by colour alone.

use anstyle::{AnsiColor, Style};

/// What a piece of text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// No meaning of its own.
    Plain,
    /// The head of a section.
    Heading,
    /// A name, a path, something to type.
    Name,
    /// New; the same; done.
    Good,
    /// Gone; differs; failed.
    Bad,
    /// Changed; a person should look.
    Notice,
    /// Of less weight: digests, derived values.
    Faint,
}

/// The style of a meaning.
pub fn style(meaning: Meaning) -> Style {
    match meaning {
        Meaning::Plain => Style::new(),
        Meaning::Heading => Style::new().bold(),
        Meaning::Name => AnsiColor::Cyan.on_default(),
        Meaning::Good => AnsiColor::Green.on_default(),
        Meaning::Bad => AnsiColor::Red.on_default(),
        Meaning::Notice => AnsiColor::Yellow.on_default(),
        Meaning::Faint => Style::new().dimmed(),
    }
}

/// Returns the text in the style of its meaning, or as it is when colour was not asked for.
pub fn paint(text: &str, meaning: Meaning, color: bool) -> String {
    if !color || meaning == Meaning::Plain || text.is_empty() {
        return text.to_owned();
    }
    let style = style(meaning);
    format!("{style}{text}{style:#}")
}
