//! CSV with a header row; the sign between fields is the one that the header has most of.

use super::{FeedError, MAX_ENTRIES, Record};

const SIGNS: [u8; 4] = *b",;\t|";

pub(super) fn records(file: &str) -> Result<Vec<Record>, FeedError> {
    let head = file.lines().next().unwrap_or_default();
    let count = |sign: u8| head.bytes().filter(|byte| *byte == sign).count();
    let sign = SIGNS.into_iter().max_by_key(|sign| count(*sign)).filter(|sign| count(*sign) > 0);
    let sign = sign.ok_or(FeedError::Format)?;
    let mut reader = csv::ReaderBuilder::new().delimiter(sign).flexible(true).from_reader(file.as_bytes());
    let names = reader.headers().map_err(|error| FeedError::Damaged(error.to_string()))?.clone();
    let mut records = Vec::new();
    for row in reader.records().take(MAX_ENTRIES) {
        let row = row.map_err(|error| FeedError::Damaged(error.to_string()))?;
        let mut record = Record::default();
        names.iter().zip(row.iter()).for_each(|(name, value)| record.add(name, value));
        records.push(record);
    }
    Ok(records)
}
