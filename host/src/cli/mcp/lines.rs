//! Messages as a client writes them: one a line.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Bytes of a line: what the host takes of a message, and some for spaces.
pub(super) const LINE_LIMIT: usize = (1 << 20) + (64 << 10);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Message(Vec<u8>),
    /// It was read to its end and forgotten.
    TooLong,
    End,
}

/// The next line that is not empty; the last may lack its end.
pub(super) async fn next_line(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Line> {
    let (mut line, mut is_long) = (Vec::new(), false);
    loop {
        let read = input.fill_buf().await?;
        let end = read.iter().position(|byte| *byte == b'\n');
        let piece = &read[..end.unwrap_or(read.len())];
        if line.len() + piece.len() > LINE_LIMIT {
            (is_long, line) = (true, Vec::new());
        } else if !is_long {
            line.extend_from_slice(piece);
        }
        let (is_over, taken) = (read.is_empty(), end.map_or(read.len(), |end| end + 1));
        input.consume(taken);
        if end.is_none() && !is_over {
            continue;
        }
        if is_long {
            return Ok(Line::TooLong);
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            return Ok(Line::Message(text.to_vec()));
        }
        if is_over {
            return Ok(Line::End);
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_read_one_by_one_and_long_ones_skipped() {
        let long = "x".repeat(LINE_LIMIT + 1);
        let whole = "y".repeat(LINE_LIMIT);
        let text = format!("one\r\n\n  \n{long}\n{whole}\nlast");
        let mut input = tokio::io::BufReader::with_capacity(1_000, text.as_bytes());
        let mut read = Vec::new();
        loop {
            match next_line(&mut input).await.unwrap() {
                Line::End => break,
                line => read.push(line),
            }
        }
        let message = |text: &str| Line::Message(text.as_bytes().to_vec());
        assert_eq!(read, [message("one"), Line::TooLong, message(&whole), message("last")]);
    }
}
