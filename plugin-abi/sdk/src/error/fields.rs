//! Which fields of an input are at fault.

use serde_json::{Value, json};

use super::{Error, Result};

impl Error {
    /// Adds a field at fault to the problem's `errors`: a JSON pointer into the input (`/offers/0/price`) and what is
    /// wrong there.
    ///
    /// It can be called again for further fields. The host shows the first 64, with 512 bytes of text each.
    ///
    /// ```
    /// use cardinal_plugin::Error;
    ///
    /// let error = Error::unprocessable("The offer does not fit.")
    ///     .field("/offers/0/price", "is below 0")
    ///     .field("/offers/0/currency", "is not EUR");
    /// assert_eq!(error.status(), Some(422));
    /// ```
    #[must_use]
    pub fn field(mut self, pointer: &str, detail: &str) -> Self {
        let entry = json!({ "pointer": pointer, "detail": detail });
        match self.details.get_mut("errors").and_then(Value::as_array_mut) {
            Some(errors) => errors.push(entry),
            None => self.set("errors", Value::from(vec![entry])),
        }
        self
    }

    /// Adds a [`field`](Self::field) when `is_wrong`. [`check`](Self::check) ends a row of them, which tells the client
    /// everything at once.
    ///
    /// ```
    /// use cardinal_plugin::{Error, Result};
    ///
    /// fn check(stars: u8, text: &str) -> Result<()> {
    ///     Error::unprocessable("The review does not fit.")
    ///         .field_if(!(1..=5).contains(&stars), "/stars", "is not from 1 to 5")
    ///         .field_if(text.trim().is_empty(), "/text", "is empty")
    ///         .check()
    /// }
    /// assert!(check(5, "good legs").is_ok());
    /// assert_eq!(check(0, "").unwrap_err().status(), Some(422));
    /// ```
    #[must_use]
    pub fn field_if(self, is_wrong: bool, pointer: &str, detail: &str) -> Self {
        if is_wrong { self.field(pointer, detail) } else { self }
    }

    /// Returns `Ok` when no field was named by [`field`](Self::field) or [`field_if`](Self::field_if).
    ///
    /// ```
    /// use cardinal_plugin::Error;
    ///
    /// let checked = |cents: i64| Error::unprocessable("No.").field_if(cents < 0, "/cents", "is below 0").check();
    /// assert!(checked(990).is_ok());
    /// assert_eq!(checked(-1).unwrap_err().status(), Some(422));
    /// ```
    ///
    /// # Errors
    /// This error, when a field was named.
    pub fn check(self) -> Result<()> {
        if self.details.get("errors").is_some() { Err(self) } else { Ok(()) }
    }
}
