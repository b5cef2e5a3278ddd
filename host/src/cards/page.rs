//! Cursors: opaque, signed, and bound to the filter and the order that they came from.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::Mac;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::filter::{Filter, Sort};
use crate::http::{
    codes,
    error::{ApiError, ApiResult},
};

const MAC_LEN: usize = 16;

/// Where a page begins: behind (or, going back, before) this card in the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The sort column's value; empty when the order is the id's own.
    pub value: String,
    pub id: Uuid,
    /// Towards the beginning of the list.
    pub back: bool,
}

/// Signs and reads cursors.
pub struct Cursors([u8; 32]);

impl Cursors {
    pub const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The cursor for a place in this list.
    pub fn seal(&self, filter: &Filter, sort: Sort, place: &Place) -> ApiResult<String> {
        let mut bytes = serde_json::to_vec(place).map_err(ApiError::internal)?;
        let mac = self.mac(filter, sort, &bytes)?;
        bytes.extend_from_slice(&mac);
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The place that a cursor stands for; 400 when it is not one of this list.
    pub fn open(&self, filter: &Filter, sort: Sort, cursor: &str) -> ApiResult<Place> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refused())?;
        let (place, mac) = bytes.split_at_checked(bytes.len().saturating_sub(MAC_LEN)).ok_or_else(refused)?;
        if !bool::from(subtle::ConstantTimeEq::ct_eq(&self.mac(filter, sort, place)?[..], mac)) {
            return Err(refused());
        }
        serde_json::from_slice(place).map_err(|_| refused())
    }

    fn mac(&self, filter: &Filter, sort: Sort, place: &[u8]) -> ApiResult<[u8; MAC_LEN]> {
        let list = serde_json::to_vec(&(filter, sort)).map_err(ApiError::internal)?;
        let mut mac = crate::mac::keyed(&self.0);
        mac.update(&Sha256::digest(list));
        mac.update(place);
        let whole: [u8; 32] = mac.finalize().into_bytes().into();
        whole[..MAC_LEN].try_into().map_err(ApiError::internal)
    }
}

fn refused() -> ApiError {
    ApiError::new(&codes::INVALID_CURSOR).detail("The cursor does not belong to this list, filter and order.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cards::filter::Column;

    #[test]
    fn a_cursor_fits_its_own_list_only() {
        let cursors = Cursors::new([1; 32]);
        let sort = Sort { column: Column::Title, descending: false };
        let place = Place { value: "Lamp".into(), id: Uuid::now_v7(), back: false };
        let cursor = cursors.seal(&Filter::default(), sort, &place).unwrap();
        assert_eq!(cursors.open(&Filter::default(), sort, &cursor).unwrap(), place);

        let other = Filter { q: Some("lamp".into()), ..Filter::default() };
        assert!(cursors.open(&other, sort, &cursor).is_err());
        assert!(cursors.open(&Filter::default(), Sort { descending: true, ..sort }, &cursor).is_err());
        assert!(Cursors::new([2; 32]).open(&Filter::default(), sort, &cursor).is_err());
        for bad in ["", "x", "AAAA", &cursor[1..], &format!("{cursor}A")] {
            assert_eq!(cursors.open(&Filter::default(), sort, bad).unwrap_err().code(), "invalid-cursor", "{bad}");
        }
    }
}
