//! Where a command gets a password from: a terminal without echo, a file, or chance. Never an argument, which everybody
//! on the machine can read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::termios::{self, LocalModes, OptionalActions, Termios};

use super::text::plain;
use cardinal_base::{
    config::{Secret, SettingsError},
    password::{self, MAX_LENGTH, MIN_LENGTH},
};

const TERMINAL: &str = "/dev/tty";
const STANDARD_INPUT: &str = "-";
/// Far more than a password has, so that a wrong file is named as one that is too long.
const MAX_FILE_BYTES: u64 = 64 << 10;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct PasswordArgs {
    /// File whose first line is the password; - is standard input [default: the terminal is asked]
    #[arg(long, value_name = "FILE", conflicts_with = "generate")]
    password_file: Option<PathBuf>,
    /// Make a random password and print it, this once
    #[arg(long)]
    generate: bool,
}

/// A password and whether somebody has yet to learn it.
pub(super) struct NewPassword {
    pub secret: Secret,
    pub is_generated: bool,
}

impl PasswordArgs {
    /// # Errors
    /// There is nothing to read it from, or it is too short or too long.
    pub(super) fn read(&self, user: &str) -> anyhow::Result<NewPassword> {
        if self.generate {
            return Ok(NewPassword { secret: password::generate(), is_generated: true });
        }
        let secret = match &self.password_file {
            Some(file) => from_file(file)?,
            None => from_terminal(user)?,
        };
        if !(MIN_LENGTH..=MAX_LENGTH).contains(&secret.expose().len()) {
            bail!("a password has {MIN_LENGTH} to {MAX_LENGTH} bytes; this one has {}", secret.expose().len());
        }
        Ok(NewPassword { secret, is_generated: false })
    }
}

fn from_file(file: &Path) -> anyhow::Result<Secret> {
    let mut text = String::new();
    let read = if file.as_os_str() == STANDARD_INPUT {
        io::stdin().take(MAX_FILE_BYTES).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|opened| opened.take(MAX_FILE_BYTES).read_to_string(&mut text))
    };
    read.with_context(|| format!("reading the password from {}", file.display()))?;
    Ok(Secret::new(text.lines().next().unwrap_or_default()))
}

fn from_terminal(user: &str) -> anyhow::Result<Secret> {
    let Ok(mut terminal) = OpenOptions::new().read(true).write(true).open(TERMINAL) else {
        let problem = "there is no terminal to ask for the password: give a file, - for standard input, or --generate";
        return Err(SettingsError::one("--password-file", problem).into());
    };
    let mut ask = |question: &str| -> anyhow::Result<Secret> {
        write!(terminal, "{question}: ")?;
        let no_echo = NoEcho::begin(&terminal).context("switching the terminal's echo off")?;
        let line = read_line(&mut &terminal);
        drop(no_echo);
        writeln!(terminal)?;
        match line.context("reading from the terminal")? {
            Some(line) => Ok(Secret::new(String::from_utf8(line).context("the password is not UTF-8")?)),
            None => bail!("nothing was changed"),
        }
    };
    let first = ask(&format!("New password of {}", plain(user)))?;
    if ask("Once more")?.expose() != first.expose() {
        bail!("the passwords do not match; nothing was changed");
    }
    Ok(first)
}

/// While it lives the terminal shows nothing and hands over each key as it is. Ctrl-C, too: a process that it ended
/// here would leave a shell without echo.
struct NoEcho<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> NoEcho<'a> {
    fn begin(terminal: &'a File) -> io::Result<Self> {
        let before = termios::tcgetattr(terminal)?;
        let mut no_echo = before.clone();
        no_echo.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        termios::tcsetattr(terminal, OptionalActions::Flush, &no_echo)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for NoEcho<'_> {
    fn drop(&mut self) {
        // The terminal is gone when this fails.
        let _ = termios::tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: u8 = 8;
const CTRL_U: u8 = 21;
const DELETE: u8 = 127;

/// Keys up to Enter; nothing when they were broken off.
fn read_line(keys: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let (mut line, mut key) = (Vec::new(), [0]);
    loop {
        if keys.read(&mut key)? == 0 {
            return Ok(None);
        }
        match key[0] {
            b'\n' | b'\r' => return Ok(Some(line)),
            CTRL_C => return Ok(None),
            CTRL_D if line.is_empty() => return Ok(None),
            CTRL_U => line.clear(),
            BACKSPACE | DELETE => remove_character(&mut line),
            key if line.len() <= MAX_LENGTH => line.push(key),
            _ => {}
        }
    }
}

/// All bytes of the last one.
fn remove_character(line: &mut Vec<u8>) {
    while line.pop().is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[u8]) -> Option<String> {
        let line = read_line(&mut &keys[..]).unwrap();
        line.map(|line| String::from_utf8(line).unwrap())
    }

    #[test]
    fn keys_edit_the_line_and_break_it_off() {
        assert_eq!(typed(b"secret\rmore").as_deref(), Some("secret"));
        assert_eq!(typed("aü\u{7f}b\u{8}c\n".as_bytes()).as_deref(), Some("ac"));
        assert_eq!(typed(b"wrong\x15right\n").as_deref(), Some("right"));
        assert_eq!(typed(b"\x7f\n").as_deref(), Some(""));
        assert_eq!(typed(b"a\x04b\n").as_deref(), Some("a\u{4}b"));
        for broken_off in [&b"a\x03b\n"[..], b"\x04", b"no end"] {
            assert_eq!(typed(broken_off), None);
        }
        assert!(typed(&[vec![b'x'; 10_000], vec![b'\n']].concat()).unwrap().len() > MAX_LENGTH);
    }

    #[test]
    fn a_file_gives_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        for (text, password) in [("one two\r\nthree\n", "one two"), ("bare", "bare"), ("", "")] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(from_file(&file).unwrap().expose(), password);
        }
        assert!(from_file(&folder.path().join("none")).is_err());
    }
}
