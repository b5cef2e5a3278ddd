//! Values of a row as JSON, by the types of their columns.

use postgres_types::{FromSql, Kind, Type};
use serde_json::Value;
use time::{Date, OffsetDateTime, PrimitiveDateTime, Time, format_description::well_known::Iso8601};
use uuid::Uuid;

use super::row::{Column, Row};
use crate::{Error, Result};

/// Reads a column of a row.
pub(crate) type Encoder = fn(&Row, usize) -> Result<Value>;

/// How a column is read.
///
/// # Errors
/// When its type has no form in JSON here.
pub(crate) fn encoder(column: &Column) -> Result<Encoder> {
    find(column.type_()).ok_or_else(|| {
        let (name, of) = (column.name(), column.type_());
        Error::internal(format!(
            "column `{name}` of type {of} cannot be written as JSON; say `{name}::text` in the SQL"
        ))
    })
}

fn find(of: &Type) -> Option<Encoder> {
    Some(match of.kind() {
        Kind::Array(inner) => return find_array(inner),
        Kind::Enum(_) => read::<Label>,
        Kind::Domain(inner) => match find(inner)? {
            // A domain's values are laid out as those of what it is made of.
            _ if matches!(*inner, Type::JSON | Type::JSONB) => read::<Json>,
            encoder => encoder,
        },
        Kind::Simple => match *of {
            Type::BOOL => read::<bool>,
            Type::INT2 => read::<i16>,
            Type::INT4 => read::<i32>,
            Type::INT8 => read::<i64>,
            Type::OID => read::<u32>,
            Type::FLOAT4 => read::<f32>,
            Type::FLOAT8 => read::<f64>,
            Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME => read::<String>,
            Type::UUID => read::<Uuid>,
            Type::JSON | Type::JSONB => read::<Json>,
            Type::NUMERIC => read::<Numeric>,
            Type::DATE => read::<Date>,
            Type::TIME => read::<Time>,
            Type::TIMESTAMP => read::<PrimitiveDateTime>,
            Type::TIMESTAMPTZ => read::<OffsetDateTime>,
            _ => return None,
        },
        _ => return None,
    })
}

fn find_array(inner: &Type) -> Option<Encoder> {
    Some(match inner.kind() {
        Kind::Enum(_) => read::<Vec<Option<Label>>>,
        _ => match *inner {
            Type::BOOL => read::<Vec<Option<bool>>>,
            Type::INT2 => read::<Vec<Option<i16>>>,
            Type::INT4 => read::<Vec<Option<i32>>>,
            Type::INT8 => read::<Vec<Option<i64>>>,
            Type::FLOAT4 => read::<Vec<Option<f32>>>,
            Type::FLOAT8 => read::<Vec<Option<f64>>>,
            Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME => read::<Vec<Option<String>>>,
            Type::UUID => read::<Vec<Option<Uuid>>>,
            Type::JSON | Type::JSONB => read::<Vec<Option<Json>>>,
            Type::NUMERIC => read::<Vec<Option<Numeric>>>,
            Type::DATE => read::<Vec<Option<Date>>>,
            Type::TIMESTAMP => read::<Vec<Option<PrimitiveDateTime>>>,
            Type::TIMESTAMPTZ => read::<Vec<Option<OffsetDateTime>>>,
            _ => return None,
        },
    })
}

fn read<T: ToJson + for<'a> FromSql<'a>>(row: &Row, at: usize) -> Result<Value> {
    let value: Option<T> = row.get_as_base(at)?;
    value.map_or(Ok(Value::Null), ToJson::to_json)
}

trait ToJson {
    fn to_json(self) -> Result<Value>;
}

macro_rules! into_json {
    ($($of:ty),*) => {$(
        impl ToJson for $of {
            fn to_json(self) -> Result<Value> {
                Ok(self.into())
            }
        }
    )*};
}

into_json!(bool, i16, i32, i64, u32, f32, f64, String);

impl ToJson for Uuid {
    fn to_json(self) -> Result<Value> {
        Ok(self.to_string().into())
    }
}

impl ToJson for Date {
    fn to_json(self) -> Result<Value> {
        Ok(self.format(&Iso8601::DATE)?.into())
    }
}

impl ToJson for Time {
    fn to_json(self) -> Result<Value> {
        Ok(self.to_string().into())
    }
}

impl ToJson for PrimitiveDateTime {
    fn to_json(self) -> Result<Value> {
        let text = self.assume_utc().format(&time::format_description::well_known::Rfc3339)?;
        Ok(text.trim_end_matches('Z').into())
    }
}

impl ToJson for OffsetDateTime {
    fn to_json(self) -> Result<Value> {
        Ok(self.format(&time::format_description::well_known::Rfc3339)?.into())
    }
}

impl<T: ToJson> ToJson for Vec<Option<T>> {
    fn to_json(self) -> Result<Value> {
        self.into_iter().map(|value| value.map_or(Ok(Value::Null), ToJson::to_json)).collect()
    }
}

/// `json` and `jsonb`.
struct Json(Value);

impl ToJson for Json {
    fn to_json(self) -> Result<Value> {
        Ok(self.0)
    }
}

impl<'a> FromSql<'a> for Json {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Value::from_sql(of, raw).map(Self)
    }

    fn accepts(of: &Type) -> bool {
        matches!(*of, Type::JSON | Type::JSONB)
    }
}

/// A value of an enum.
struct Label(String);

impl ToJson for Label {
    fn to_json(self) -> Result<Value> {
        Ok(self.0.into())
    }
}

impl<'a> FromSql<'a> for Label {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?.to_owned()))
    }

    fn accepts(of: &Type) -> bool {
        matches!(of.kind(), Kind::Enum(_))
    }
}

/// A decimal number with every digit.
struct Numeric(String);

impl ToJson for Numeric {
    fn to_json(self) -> Result<Value> {
        Ok(self.0.into())
    }
}

impl<'a> FromSql<'a> for Numeric {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        decimal(raw).map(Self).ok_or_else(|| "the number is malformed".into())
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::NUMERIC
    }
}

/// PostgreSQL's binary form: count, weight, sign, scale, then groups of four digits.
fn decimal(raw: &[u8]) -> Option<String> {
    let words: Vec<u16> = raw.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    let [count, weight, sign, scale, groups @ ..] = &words[..] else { return None };
    match sign {
        0x0000 | 0x4000 => {}
        0xC000 => return Some("NaN".to_owned()),
        0xD000 => return Some("Infinity".to_owned()),
        0xF000 => return Some("-Infinity".to_owned()),
        _ => return None,
    }
    if usize::from(*count) != groups.len() || groups.iter().any(|group| *group > 9_999) {
        return None;
    }
    let weight = i32::from(weight.cast_signed());
    let group = |place: i32| {
        let at = usize::try_from(weight - place).ok();
        at.and_then(|at| groups.get(at)).copied().unwrap_or(0)
    };
    let mut text = if weight < 0 { "0".to_owned() } else { group(weight).to_string() };
    for place in (0..weight).rev() {
        text.push_str(&format!("{:04}", group(place)));
    }
    let scale = usize::from(*scale);
    if scale > 0 {
        text.push('.');
        let begin = text.len();
        let mut place = -1;
        while text.len() - begin < scale {
            text.push_str(&format!("{:04}", group(place)));
            place -= 1;
        }
        text.truncate(begin + scale);
    }
    Some(if *sign == 0x4000 { format!("-{text}") } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(words: &[u16]) -> Option<String> {
        decimal(&words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>())
    }

    #[test]
    fn decimals_have_every_digit() {
        for (words, text) in [
            (&[0, 0, 0, 0][..], "0"),
            (&[0, 0, 0, 2], "0.00"),
            (&[1, 0, 0, 0, 7], "7"),
            (&[2, 0, 0x4000, 2, 9, 9000], "-9.90"),
            (&[3, 1, 0, 3, 1, 2345, 6780], "12345.678"),
            (&[1, 0xffff, 0, 4, 1], "0.0001"),
            (&[1, 0xfffe, 0, 6, 5000], "0.000050"),
            (&[1, 2, 0, 0, 1], "100000000"),
            (&[0, 0, 0xC000, 0], "NaN"),
        ] {
            assert_eq!(numeric(words).as_deref(), Some(text));
        }
        assert_eq!(numeric(&[1, 0, 0, 0]), None, "cut");
        assert_eq!(numeric(&[1, 0, 0, 0, 10_000]), None);
        assert_eq!(numeric(&[1, 0, 7, 0, 1]), None);
        assert_eq!(numeric(&[]), None);
    }
}
