//! Which known word was probably meant by one that is unknown.

/// So many letters of a word allow for one mistake.
const LETTERS_PER_MISTAKE: usize = 4;
const MAX_MISTAKES: usize = 3;

/// The known word that is nearest, if one is near.
pub fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let allowed = (word.chars().count() / LETTERS_PER_MISTAKE).clamp(1, MAX_MISTAKES);
    let distances = known.into_iter().map(|known| (strsim::damerau_levenshtein(word, known), known));
    distances.filter(|(distance, _)| *distance <= allowed).min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// The same as the end of a message: ` Did you mean `x`?`, or nothing.
pub fn did_you_mean<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> String {
    nearest(word, known).map(|known| format!(" Did you mean `{known}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_found_and_another_word_is_not() {
        let known = ["cards:read", "cards:write", "keys:read"];
        for (word, meant) in [("card:read", "cards:read"), ("cards:raed", "cards:read"), ("key:read", "keys:read")] {
            assert_eq!(nearest(word, known), Some(meant), "{word}");
        }
        for word in ["", "plugins", "cards", "mcp:use"] {
            assert_eq!(nearest(word, known), None, "{word}");
        }
        assert_eq!(did_you_mean("cards:wirte", known), " Did you mean `cards:write`?");
        assert_eq!(did_you_mean("x", known), "");
    }
}
