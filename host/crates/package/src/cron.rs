//! Cron expressions of five fields, in UTC: minute, hour, day of the month, month, day of the week. Pure.
//!
//! A field is `*`, a number, a range `a-b`, or a list of these with commas; `*` and ranges take a step, as in `*/15`.
//! Sunday is 0 or 7. As in every cron, a day fits when either of its two fields does, unless one of them is `*`.

use std::ops::RangeInclusive;

use time::{Date, Duration, OffsetDateTime, Time};

/// Longer expressions are refused.
const LENGTH_LIMIT: usize = 200;
/// Days that are looked through for the next time: 29 February can be eight years away.
const SEARCH_DAYS: u32 = 8 * 366 + 1;

/// Times that an expression names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    // A bit for each value that fits.
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// A day has to fit both fields, as one of them is `*`.
    needs_both_days: bool,
}

/// A minute of a day.
#[derive(Clone, Copy)]
struct DayMinute {
    hour: u8,
    minute: u8,
}

impl Cron {
    /// Reads an expression; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LENGTH_LIMIT {
            return Err(format!("the expression has more than {LENGTH_LIMIT} characters"));
        }
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!("the expression has {} fields instead of 5", fields.len()));
        };
        let weekdays = field("day of the week", weekday, 0..=7)?;
        let cron = Self {
            minutes: field("minute", minute, 0..=59)?,
            hours: field("hour", hour, 0..=23)?,
            days: field("day of the month", day, 1..=31)?,
            months: field("month", month, 1..=12)?,
            weekdays: weekdays | ((weekdays >> 7) & 1),
            needs_both_days: day.starts_with('*') || weekday.starts_with('*'),
        };
        match cron.next_after(OffsetDateTime::UNIX_EPOCH) {
            Some(_) => Ok(cron),
            None => Err("no day is ever so".to_owned()),
        }
    }

    /// The first time after `moment`, to the minute.
    pub fn next_after(&self, moment: OffsetDateTime) -> Option<OffsetDateTime> {
        let from = moment.to_offset(time::UtcOffset::UTC).checked_add(Duration::MINUTE)?;
        let mut day = from.date();
        let mut earliest = DayMinute { hour: from.hour(), minute: from.minute() };
        for _ in 0..SEARCH_DAYS {
            if self.fits(day)
                && let Some(DayMinute { hour, minute }) = self.first_time(earliest)
            {
                return Some(day.with_time(Time::from_hms(hour, minute, 0).ok()?).assume_utc());
            }
            day = day.next_day()?;
            earliest = DayMinute { hour: 0, minute: 0 };
        }
        None
    }

    fn fits(&self, day: Date) -> bool {
        let of_month = has(self.days, day.day());
        let of_week = has(self.weekdays, day.weekday().number_days_from_sunday());
        let fits = if self.needs_both_days { of_month && of_week } else { of_month || of_week };
        fits && has(self.months, u8::from(day.month()))
    }

    /// The first time of a day, not before `earliest`.
    fn first_time(&self, earliest: DayMinute) -> Option<DayMinute> {
        let hours = (earliest.hour..24).filter(|hour| has(self.hours, *hour));
        hours.into_iter().find_map(|hour| {
            let first = if hour == earliest.hour { earliest.minute } else { 0 };
            (first..60).find(|minute| has(self.minutes, *minute)).map(|minute| DayMinute { hour, minute })
        })
    }
}

fn has(set: u64, value: u8) -> bool {
    (set >> value) & 1 == 1
}

fn field(name: &str, text: &str, range: RangeInclusive<u8>) -> Result<u64, String> {
    let mut set = 0;
    for part in text.split(',') {
        let (first, last, step) = parse_part(part, &range).ok_or_else(|| {
            let (min, max) = (range.start(), range.end());
            format!("the {name} {part:?} is not *, a number from {min} to {max}, or a range of these")
        })?;
        (first..=last).step_by(usize::from(step)).for_each(|value| set |= 1 << value);
    }
    Ok(set)
}

/// First and last value and step of one part of a list.
fn parse_part(part: &str, range: &RangeInclusive<u8>) -> Option<(u8, u8, u8)> {
    let number = |text: &str| text.parse::<u8>().ok().filter(|value| range.contains(value));
    let (values, step) = match part.split_once('/') {
        Some((values, step)) => (values, Some(step.parse::<u8>().ok().filter(|step| *step > 0)?)),
        None => (part, None),
    };
    let (first, last) = match values.split_once('-') {
        _ if values == "*" => (*range.start(), *range.end()),
        Some((first, last)) => (number(first)?, number(last)?),
        None if step.is_none() => (number(values)?, number(values)?),
        None => return None,
    };
    (first <= last).then_some((first, last, step.unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use time::format_description::well_known::Rfc3339;

    use super::*;

    fn next(expression: &str, after: &str) -> String {
        let after = OffsetDateTime::parse(after, &Rfc3339).unwrap();
        Cron::parse(expression).unwrap().next_after(after).unwrap().format(&Rfc3339).unwrap()
    }

    #[test]
    fn the_next_time_is_the_first_that_fits() {
        for (expression, after, expected) in [
            ("* * * * *", "2026-03-01T10:00:00Z", "2026-03-01T10:01:00Z"),
            ("15 3 * * *", "2026-03-01T03:14:59.9Z", "2026-03-01T03:15:00Z"),
            ("15 3 * * *", "2026-03-01T03:15:00Z", "2026-03-02T03:15:00Z"),
            ("*/20 9-17 * * 1-5", "2026-03-06T17:40:01Z", "2026-03-09T09:00:00Z"),
            ("0 0 29 2 *", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"),
            ("59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"),
            ("0 12 * * 7", "2026-03-02T00:00:00Z", "2026-03-08T12:00:00Z"),
            // Either field of the day, as neither is *: the 13th, and Fridays.
            ("0 0 13 * 5", "2026-03-07T00:00:00Z", "2026-03-13T00:00:00Z"),
            ("0 0 15 * 5", "2026-03-07T00:00:00Z", "2026-03-13T00:00:00Z"),
            ("0 0 */2 * 1", "2026-03-03T00:00:00Z", "2026-03-09T00:00:00Z"),
            ("5,10-12,50-59/4 8 * * *", "2026-03-01T08:12:00Z", "2026-03-01T08:50:00Z"),
            ("0 0 * * *", "2026-03-01T23:30:00-02:00", "2026-03-03T00:00:00Z"),
        ] {
            assert_eq!(next(expression, after), expected, "{expression} after {after}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused_with_the_reason() {
        for (expression, part) in [
            ("", "0 fields"),
            ("* * * *", "4 fields"),
            ("@daily", "1 fields"),
            ("60 * * * *", "minute \"60\""),
            ("* 24 * * *", "hour \"24\""),
            ("* * 0 * *", "day of the month \"0\""),
            ("* * * 13 *", "month \"13\""),
            ("* * * * 8", "day of the week \"8\""),
            ("*/0 * * * *", "minute \"*/0\""),
            ("5/2 * * * *", "minute \"5/2\""),
            ("9-5 * * * *", "minute \"9-5\""),
            ("1,,2 * * * *", "minute \"\""),
            ("* * * jan *", "month \"jan\""),
            ("-1 * * * *", "minute \"-1\""),
            ("0 0 30 2 *", "no day is ever so"),
        ] {
            let error = Cron::parse(expression).unwrap_err();
            assert!(error.contains(part), "{expression}: {error}");
        }
        assert!(Cron::parse(&"0,".repeat(LENGTH_LIMIT)).is_err());
    }
}
