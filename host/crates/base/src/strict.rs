//! A serde deserializer that refuses an array for an object, and names no Rust type.
//!
//! What `serde` derives takes an array for an object's fields in their order, and names Rust types where it refuses.
//! This deserializer stands between serde_json's and the type, around nested values, too. Enums are read as one of a
//! few strings; variants that hold data are not supported.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
    value::StrDeserializer,
};

/// What serde_json names the raw text of a value; only serde_json itself can read that.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// A deserializer, or whatever gives one, made strict.
pub(crate) struct Strict<D>(pub D);

/// Reads what `visitor` wants and names it as JSON does.
struct Reader<V> {
    visitor: V,
    /// In place of the visitor's own words, which name Rust types.
    expected: Option<&'static str>,
    takes_array: bool,
}

impl<V> Reader<V> {
    const fn new(visitor: V) -> Self {
        Self { visitor, expected: None, takes_array: true }
    }

    const fn expecting(visitor: V, expected: &'static str) -> Self {
        Self { visitor, expected: Some(expected), takes_array: true }
    }
}

macro_rules! scalars {
    ($($method:ident $expected:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            self.0.$method(Reader::expecting(visitor, $expected))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    scalars! {
        deserialize_bool "true or false";
        deserialize_i8 "a whole number from -128 to 127";
        deserialize_i16 "a whole number from -32768 to 32767";
        deserialize_i32 "a whole number from -2147483648 to 2147483647";
        deserialize_i64 "a whole number";
        deserialize_i128 "a whole number";
        deserialize_u8 "a whole number from 0 to 255";
        deserialize_u16 "a whole number from 0 to 65535";
        deserialize_u32 "a whole number from 0 to 4294967295";
        deserialize_u64 "a whole number from 0 up";
        deserialize_u128 "a whole number from 0 up";
        deserialize_f32 "a number";
        deserialize_f64 "a number";
        deserialize_char "a string of one character";
        deserialize_str "a string";
        deserialize_string "a string";
        deserialize_bytes "a string";
        deserialize_byte_buf "a string";
        deserialize_unit "null";
        deserialize_seq "an array";
        deserialize_map "an object";
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(Reader::new(visitor))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_option(Reader::new(visitor))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, Reader::expecting(visitor, "null"))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        match name {
            RAW_VALUE => self.0.deserialize_newtype_struct(name, visitor),
            _ => self.0.deserialize_newtype_struct(name, Reader::new(visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, Reader::expecting(visitor, "an array"))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, len, Reader::expecting(visitor, "an array"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let reader = Reader { visitor, expected: Some("an object"), takes_array: false };
        self.0.deserialize_struct(name, fields, reader)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        // serde_json's own reading takes `{"name": null}`, and says of a number that it is no JSON.
        self.0.deserialize_any(Name { variants, visitor })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_identifier(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_ignored_any(visitor)
    }
}

macro_rules! visits {
    ($($method:ident $type:ty;)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            let Some(expected) = self.expected else { return self.visitor.$method(value) };
            // The visitor's own error would name the Rust type.
            self.visitor.$method(value).map_err(|_: E| E::custom(format_args!("invalid value: `{value}`, expected {expected}")))
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Reader<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.expected {
            Some(expected) => f.write_str(expected),
            None => self.visitor.expecting(f),
        }
    }

    visits! {
        visit_bool bool;
        visit_i64 i64;
        visit_i128 i128;
        visit_u64 u64;
        visit_u128 u128;
        visit_f64 f64;
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        self.visitor.visit_str(text)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<V::Value, E> {
        self.visitor.visit_borrowed_str(text)
    }

    fn visit_string<E: Error>(self, text: String) -> Result<V::Value, E> {
        self.visitor.visit_string(text)
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<V::Value, E> {
        self.visitor.visit_bytes(bytes)
    }

    fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<V::Value, E> {
        self.visitor.visit_borrowed_bytes(bytes)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Strict(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Strict(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        if !self.takes_array {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        self.visitor.visit_seq(Strict(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Strict(members))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<T::Value, D::Error> {
        self.0.deserialize(Strict(inner))
    }
}

/// Reads the name of a variant.
struct Name<V> {
    variants: &'static [&'static str],
    visitor: V,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Name<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of `{}`", self.variants.join("`, `"))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        let name: StrDeserializer<'_, E> = name.into_deserializer();
        self.visitor.visit_enum(name)
    }
}
