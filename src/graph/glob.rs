//! Globs over dotted layer paths, in time proportional to pattern × path whatever a person types.

/// A piece of a pattern.
enum Token {
    /// This character.
    Literal(char),
    /// `*`: any characters but dots.
    Star,
    /// `**` inside a segment: any characters.
    DoubleStar,
    /// `.**` before a dot or the end: nothing, or a dot and any characters. So `head.**` is `head` and all under it.
    DeepAfter,
    /// `**.` at the beginning: nothing, or any characters and a dot.
    DeepBefore,
}

fn tokens(pattern: &str) -> Vec<Token> {
    let characters: Vec<char> = pattern.chars().collect();
    let mut result = Vec::new();
    let mut index = 0;
    while index < characters.len() {
        let rest = &characters[index..];
        let (token, length) = match rest {
            ['*', '*', '.', ..] if index == 0 => (Token::DeepBefore, 3),
            ['.', '*', '*'] | ['.', '*', '*', '.', ..] => (Token::DeepAfter, 3),
            ['*', '*', ..] => (Token::DoubleStar, 2),
            ['*', ..] => (Token::Star, 1),
            [character, ..] => (Token::Literal(*character), 1),
            [] => break,
        };
        result.push(token);
        index += length;
    }
    result
}

/// Whether a dotted path matches a glob: `*` stays within one segment, `**` crosses dots and may stand for no segment.
pub fn matches(pattern: &str, path: &str) -> bool {
    // Most of many rules fit nothing, and are told apart by what stands before their first star.
    match pattern.find('*') {
        None => return pattern == path,
        // `head.**` fits `head` too.
        Some(star) if !path.starts_with(pattern[..star].trim_end_matches('.')) => return false,
        Some(_) => {}
    }
    let path: Vec<char> = path.chars().collect();
    // reached[i]: the tokens so far match the first i characters.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for token in tokens(pattern) {
        let mut next = vec![false; path.len() + 1];
        // Whether some start at or before i reaches i through characters that the token takes.
        let mut open = false;
        for index in 0..=path.len() {
            let last = index.checked_sub(1).map(|last| path[last]);
            next[index] = match token {
                Token::Literal(wanted) => last == Some(wanted) && reached[index - 1],
                Token::Star => {
                    open = reached[index] || (open && last != Some('.'));
                    open
                }
                Token::DoubleStar => {
                    open |= reached[index];
                    open
                }
                Token::DeepAfter => {
                    open |= last == Some('.') && reached[index - 1];
                    reached[index] || open
                }
                Token::DeepBefore => index == 0 || last == Some('.'),
            };
        }
        reached = next;
    }
    reached[path.len()]
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn one_star_stays_in_a_segment() {
        assert!(matches("hidden.*.linear", "hidden.0.linear"));
        assert!(!matches("hidden.*.linear", "hidden.0.1.linear"));
        assert!(!matches("hidden.*", "hidden"));
        assert!(matches("hid*", "hidden"));
        assert!(!matches("hid*", "hidden.0"));
        assert!(matches("*", "head"));
        assert!(!matches("*", "head.linear"));
    }

    #[test]
    fn two_stars_cross_segments_and_may_be_none() {
        assert!(matches("head.**", "head"));
        assert!(matches("head.**", "head.a.b"));
        assert!(!matches("head.**", "header"));
        assert!(matches("**", ""));
        assert!(matches("**", "a.b.c"));
        assert!(matches("**.linear", "linear"));
        assert!(matches("**.linear", "a.b.linear"));
        assert!(!matches("**.linear", "a.nonlinear"));
        assert!(matches("a.**.z", "a.z"));
        assert!(matches("a.**.z", "a.b.c.z"));
        assert!(!matches("a.**.z", "a.bz"));
        assert!(matches("hid**", "hidden.0.linear"));
    }

    #[test]
    fn what_stands_before_the_first_star_must_fit() {
        assert!(
            matches("head.**", "head") && matches("head.**", "head.weight") && !matches("head.**", "heads")
        );
        assert!(
            matches("head.*", "head.weight")
                && !matches("head.*", "head")
                && !matches("head.*", "tail.weight")
        );
        assert!(matches("he*.weight", "head.weight") && !matches("he*.weight", "hit.weight"));
    }

    #[test]
    fn plain_text_matches_itself_alone() {
        assert!(matches("head", "head"));
        assert!(!matches("head", "head.0"));
        assert!(!matches("head", "ahead"));
        assert!(!matches("", "head"));
        assert!(matches("größe.*", "größe.ä"));
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "*a".repeat(2000);
        assert!(!matches(&pattern, &"a".repeat(1999)));
        assert!(matches(&pattern, &"a".repeat(2000)));
    }
}
