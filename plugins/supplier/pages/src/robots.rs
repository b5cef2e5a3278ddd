//! What a robots.txt permits, RFC 9309. Pure: text in, answers out.

use std::time::Duration;

use url::{Position, Url};

/// Together with the limit of the file itself these keep a hostile robots.txt small in memory.
const MAX_RULES: usize = 2000;
const MAX_PATTERN: usize = 1024;

/// The rules of the group that counts for us. The default permits everything.
#[derive(Debug, Default, PartialEq)]
pub struct Robots {
    rules: Vec<Rule>,
    pub crawl_delay: Option<Duration>,
}

#[derive(Debug, PartialEq)]
struct Rule {
    allow: bool,
    /// Normalised like the path that it is held against.
    pattern: String,
}

/// Which groups a line belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Group {
    Ours,
    Everybodys,
    Others,
}

impl Robots {
    /// `name` is our product token, without a version.
    pub fn parse(text: &str, name: &str) -> Robots {
        let (mut ours, mut everybodys, mut others) = (None, Robots::default(), Robots::default());
        let mut group = Group::Others;
        // Lines of agents that follow each other name one group together.
        let mut naming = false;
        for (key, value) in text.trim_start_matches('\u{feff}').lines().filter_map(line) {
            if key.eq_ignore_ascii_case("user-agent") {
                let named = group_of(value, name);
                group = if naming { more_specific(group, named) } else { named };
                naming = true;
                if group == Group::Ours {
                    ours.get_or_insert_with(Robots::default);
                }
                continue;
            }
            let robots = match group {
                Group::Ours => ours.get_or_insert_with(Robots::default),
                Group::Everybodys => &mut everybodys,
                Group::Others => &mut others,
            };
            // Other keys (Sitemap, Host) stand outside the groups and do not end one.
            naming = !robots.read(key, value) && naming;
        }
        ours.unwrap_or(everybodys)
    }

    /// Reads a line of a group; `false` when it is none.
    fn read(&mut self, key: &str, value: &str) -> bool {
        match key.to_ascii_lowercase().as_str() {
            "allow" => self.add(true, value),
            "disallow" => self.add(false, value),
            "crawl-delay" => {
                let seconds = value.parse::<f32>().ok();
                self.crawl_delay = seconds.and_then(|seconds| Duration::try_from_secs_f32(seconds).ok());
            }
            _ => return false,
        }
        true
    }

    fn add(&mut self, allow: bool, value: &str) {
        // An empty one forbids nothing, and permits nothing that was not permitted anyway.
        if value.is_empty() || value.len() > MAX_PATTERN || self.rules.len() == MAX_RULES {
            return;
        }
        let pattern = normal(value);
        let pattern = if pattern.starts_with(['/', '*']) { pattern } else { format!("/{pattern}") };
        self.rules.push(Rule { allow, pattern });
    }

    /// The longest rule that matches decides; of two of the same length the one that permits.
    pub fn permits(&self, url: &Url) -> bool {
        let path = normal(&url[Position::BeforePath..Position::AfterQuery]);
        if path == "/robots.txt" {
            return true;
        }
        let matching = self.rules.iter().filter(|rule| rule.matches(&path));
        matching.max_by_key(|rule| (rule.pattern.len(), rule.allow)).is_none_or(|rule| rule.allow)
    }
}

impl Rule {
    /// `*` stands for anything, `$` at the end for the end. Each piece is looked for behind the one
    /// before, so that the time is linear whatever the pattern.
    fn matches(&self, path: &str) -> bool {
        let (pattern, to_the_end) = match self.pattern.strip_suffix('$') {
            Some(pattern) => (pattern, true),
            None => (self.pattern.as_str(), false),
        };
        let mut pieces = pattern.split('*');
        let Some(mut rest) = path.strip_prefix(pieces.next().unwrap_or_default()) else {
            return false;
        };
        let Some(last) = pieces.next_back() else {
            return !to_the_end || rest.is_empty();
        };
        for piece in pieces {
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        if to_the_end { rest.ends_with(last) } else { rest.contains(last) }
    }
}

fn line(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split('#').next()?.split_once(':')?;
    Some((key.trim(), value.trim()))
}

fn group_of(agent: &str, name: &str) -> Group {
    let token = agent.split(|c: char| !(c.is_ascii_alphabetic() || matches!(c, '-' | '_'))).next().unwrap_or_default();
    match agent {
        _ if token.eq_ignore_ascii_case(name) => Group::Ours,
        agent if agent.starts_with('*') => Group::Everybodys,
        _ => Group::Others,
    }
}

fn more_specific(one: Group, other: Group) -> Group {
    match (one, other) {
        (Group::Ours, _) | (_, Group::Ours) => Group::Ours,
        (Group::Everybodys, _) | (_, Group::Everybodys) => Group::Everybodys,
        _ => Group::Others,
    }
}

/// One spelling of a path: `%7e` and `~` are the same, and so are `ä` and `%C3%A4`.
fn normal(path: &str) -> String {
    let mut normal = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let escaped = (byte == b'%').then(|| hex(ahead.next()?).zip(hex(ahead.next()?))).flatten();
        let value = match escaped {
            Some((high, low)) => {
                bytes = ahead;
                high << 4 | low
            }
            None => byte,
        };
        let unreserved = value.is_ascii_alphanumeric() || matches!(value, b'-' | b'.' | b'_' | b'~');
        if unreserved || (escaped.is_none() && value.is_ascii_graphic()) {
            normal.push(char::from(value));
        } else {
            normal.push_str(&format!("%{value:02X}"));
        }
    }
    normal
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const NAME: &str = "cardinal-supplier";

    fn permits(robots: &str, path: &str) -> bool {
        Robots::parse(robots, NAME).permits(&Url::parse("https://shop.example").unwrap().join(path).unwrap())
    }

    #[test]
    fn nothing_said_is_everything_permitted() {
        for robots in
            ["", "# nothing", "User-agent: *\nDisallow:", "<!doctype html><title>404: gone</title>", "Disallow: /"]
        {
            assert!(permits(robots, "/p"), "{robots}");
        }
    }

    #[test]
    fn the_longest_rule_decides_and_a_tie_permits() {
        let robots = "User-agent: *\nDisallow: /\nAllow: /p/\nDisallow: /p/secret\nAllow: /same\nDisallow: /same";
        for (path, expected) in [
            ("/", false),
            ("/x", false),
            ("/p/1", true),
            ("/p/secret/2", false),
            ("/same", true),
            ("/robots.txt", true),
        ] {
            assert_eq!(permits(robots, path), expected, "{path}");
        }
    }

    #[test]
    fn wildcards_and_ends() {
        for (pattern, path, refused) in [
            ("/*.php", "/a/index.php", true),
            ("/*.php", "/a/index.php?x=1", true),
            ("/*.php$", "/a/index.php?x=1", false),
            ("/*.php$", "/index.php", true),
            ("/fish*", "/fish.html", true),
            ("/fish*", "/catfish", false),
            ("/a*b*c", "/a-b-c", true),
            ("/a*b*c", "/a-c-b", false),
            ("/$", "/", true),
            ("/$", "/p", false),
            ("*", "/p", true),
            ("/*?", "/p?x", true),
            ("/*?", "/p", false),
            ("/*a*a$", "/xa", false),
            ("private", "/private/1", true),
            ("/p$x", "/p$x", true),
        ] {
            assert_eq!(!permits(&format!("user-agent: *\ndisallow: {pattern}"), path), refused, "{pattern} {path}");
        }
    }

    #[test]
    fn spellings_of_one_path_are_one() {
        for (pattern, path) in
            [("/~joe", "/%7Ejoe/"), ("/%7ejoe", "/~joe/"), ("/ä", "/%C3%A4"), ("/%c3%a4", "/ä"), ("/a%2fb", "/a%2Fb")]
        {
            assert!(!permits(&format!("user-agent: *\ndisallow: {pattern}"), path), "{pattern} {path}");
        }
        assert!(permits("user-agent: *\ndisallow: /a%2fb", "/a/b"));
    }

    #[test]
    fn our_own_group_counts_alone_wherever_it_stands() {
        let robots = "\u{feff}User-Agent: other\nUser-agent: Cardinal-Supplier/1.0\nCrawl-delay: 2.5\nDisallow: /a\n\n\
                      Sitemap: https://shop.example/map.xml\nUser-agent: *\nDisallow: /\n\n\
                      user-agent: cardinal-supplier # once more\n\nDISALLOW: /b # because";
        for (path, expected) in [("/", true), ("/a", false), ("/b", false), ("/c", true)] {
            assert_eq!(permits(robots, path), expected, "{path}");
        }
        assert_eq!(Robots::parse(robots, NAME).crawl_delay, Some(Duration::from_millis(2500)));
        // Named, and told nothing: free to go.
        assert!(permits("User-agent: *\nDisallow: /\n\nUser-agent: cardinal-supplier\n", "/p"));
        assert!(!permits("User-agent: *\nDisallow: /\n\nUser-agent: cardinal-supplier-image\nAllow: /", "/p"));
    }

    #[test]
    fn odd_delays_are_no_delays() {
        for delay in ["-1", "NaN", "inf", "1e99", "soon", ""] {
            assert_eq!(
                Robots::parse(&format!("user-agent: *\ncrawl-delay: {delay}"), NAME).crawl_delay,
                None,
                "{delay}"
            );
        }
    }

    #[test]
    fn a_hostile_file_stays_small_and_fast() {
        let many = "disallow: /".to_owned() + &"*a".repeat(500) + "b\n";
        let robots = Robots::parse(&("user-agent: *\n".to_owned() + &many.repeat(10_000)), NAME);
        assert_eq!(robots.rules.len(), MAX_RULES);
        assert!(robots.permits(&Url::parse(&format!("https://shop.example/{}", "a".repeat(2000))).unwrap()));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\PC\n]{0,200}", rules in "(user-agent: \\*\n)?(disallow: [/*$%a-z?é]{0,20}\n){0,5}", path in "/[a-z%*$?é][/a-z%*$?é]{0,30}") {
            let url = Url::parse("https://shop.example/").unwrap().join(&path).unwrap();
            Robots::parse(&text, NAME).permits(&url);
            Robots::parse(&rules, NAME).permits(&url);
        }
    }
}
