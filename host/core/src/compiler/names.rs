//! How alike two names are.
//!
//! Owns the splitting of key names into words and their comparison. Refuses dictionaries: only the words
//! that stand there count.
//!
//! **Invariant:** a likeness is between 0 and 1, and 1 only for the same words, or abbreviations
//! of them, in the same order.

/// From here on a name is evidence enough for a value that many things could have.
pub(super) const STRONG: f64 = 0.75;

/// From here on names are the same but for the order of words.
pub(super) const SAME: f64 = 0.95;

/// From here on names are alike.
pub(super) const ALIKE: f64 = 0.3;

/// A key name as lower-case words in the singular, digits left out.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_alphabetic() {
            if c.is_uppercase() && was_lower {
                words.push(std::mem::take(&mut word));
            }
            word.extend(c.to_lowercase());
        } else {
            words.push(std::mem::take(&mut word));
        }
        was_lower = c.is_lowercase();
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    for word in &mut words {
        if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") {
            word.pop();
        }
    }
    words
}

/// How well a source with the words `key`, standing below things with the words `around`, fits an argument
/// with the words `wanted`.
pub(super) fn likeness<'w>(wanted: &'w [String], key: &'w [String], around: &[&[String]]) -> f64 {
    let (Some(wanted_head), Some(key_head)) = (wanted.last(), key.last()) else {
        return 0.0;
    };
    let is_same = |(a, b): (&String, &String)| a == b || abbreviates(a, b) || abbreviates(b, a);
    let abbreviated = wanted.len() == key.len() && wanted.iter().zip(key).all(is_same);
    let bytes = |words: &'w [String]| words.iter().flat_map(|word| word.bytes());
    if abbreviated || bytes(wanted).eq(bytes(key)) {
        return 1.0;
    }
    let in_key = |word: &String| key.contains(word);
    let in_around = |word: &String| around.iter().any(|words| words.contains(word));
    if wanted.iter().all(in_key) && key.iter().all(|word| wanted.contains(word)) {
        return 0.95;
    }
    if wanted_head == key_head {
        return if wanted.iter().all(|word| in_key(word) || in_around(word)) {
            // A longer source name says more than was asked for: `origin_id` for `id`.
            let extra = key.iter().filter(|word| !wanted.contains(word)).count();
            if extra == 0 { 0.85 } else { 0.7 }
        } else if key.iter().all(|word| wanted.contains(word)) {
            0.55
        } else {
            0.45
        };
    }
    if wanted.iter().any(in_key) {
        return 0.3;
    }
    0.0
}

/// Whether one word is the beginning of another, or of its consonants: `lat` and `lng`.
fn abbreviates(short: &str, long: &str) -> bool {
    if short.len() < 3 || short.len() >= long.len() || !long.starts_with(short.get(..1).unwrap_or("\0")) {
        return false;
    }
    let consonants: String = long.chars().filter(|c| !"aeiou".contains(*c)).collect();
    long.starts_with(short) || consonants.starts_with(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fall_into_words() {
        for (name, expected) in [
            ("hotel_id", "hotel id"),
            ("hotelId", "hotel id"),
            ("hotels", "hotel"),
            ("arg_0", "arg"),
            ("HTTPStatus", "httpstatus"),
            ("address", "address"),
            ("", ""),
        ] {
            assert_eq!(words(name).join(" "), expected, "{name}");
        }
    }

    #[test]
    fn likeness_prefers_the_same_thing() {
        let like =
            |wanted: &str, key: &str, around: &str| likeness(&words(wanted), &words(key), &[&words(around)]);
        assert_eq!(like("hotelId", "hotel_id", ""), 1.0);
        assert_eq!(like("dest_id", "destid", ""), 1.0);
        assert!(like("hotel_id", "id", "hotels") >= STRONG);
        assert!(like("hotel_id", "id", "flights") < like("hotel_id", "id", "hotels"));
        assert!(like("pick_up_latitude", "latitude", "coordinates") > 0.5);
        assert_eq!(like("latitude", "lat", ""), 1.0);
        assert_eq!(like("longitude", "lng", ""), 1.0);
        assert_eq!(like("page", "count", "result"), 0.0);
        assert_eq!(like("verbose", "ok", ""), 0.0);
    }
}
