//! Signatures of packages: minisign's own files, checked against the operator's keys, offline.

use std::{
    io::Cursor,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use minisign::{PublicKey, SignatureBox};
use serde::{Deserialize, Serialize};

use super::{
    owners::{FileOwner, Owners},
    refusal::{Code, Refusal},
};
use cardinal_base::{config::parse_trust_key, hex::hex, secret_file};

/// The largest signature file; minisign's have some 300 bytes.
pub const SIGNATURE_LIMIT: u64 = 4 << 10;
/// What minisign appends to the name of the file that it signs.
pub const SUFFIX: &str = ".minisig";
/// What is signed of a folder: a line `sha256  name` for each file that counts, as `sha256sum` writes them.
pub const SUMS: &str = "SHA256SUMS";

/// Who signed: the public key, as minisign writes it in one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Signer(pub String);

/// What a package says of who made it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SignatureState {
    #[default]
    No,
    By(Signer),
    /// By a key that the operator has not named; its number.
    ByStranger(String),
    /// By one of the operator's keys, or in its name, and not over these files.
    Wrong(String),
}

impl SignatureState {
    pub fn signer(&self) -> Option<&Signer> {
        match self {
            Self::By(signer) => Some(signer),
            _ => None,
        }
    }

    /// Whether a host takes it that takes nothing unsigned.
    pub fn demand(&self) -> Result<(), Refusal> {
        let expected = "a signature by a key of PLUGIN_TRUST_KEYS";
        match self {
            Self::By(_) => Ok(()),
            Self::No => Err(Refusal::new(Code::SignatureMissing, "This host loads signed plugins only.")
                .expected(expected)
                .found("no signature file")),
            Self::ByStranger(number) => Err(Refusal::new(
                Code::SignatureInvalid,
                "The plugin is signed by a key that this host does not trust.",
            )
            .expected(expected)
            .found(format!("key {number}"))
            .fix("Add the key's file to PLUGIN_TRUST_KEYS if you trust its holder.")),
            Self::Wrong(why) => Err(wrong(why)),
        }
    }

    /// A signature that is wrong is worse than none, whatever the host asks for.
    pub(crate) fn not_wrong(&self) -> Result<(), Refusal> {
        match self {
            Self::Wrong(why) => Err(wrong(why)),
            _ => Ok(()),
        }
    }
}

fn wrong(why: &str) -> Refusal {
    Refusal::new(Code::SignatureInvalid, "The plugin's signature does not match its files.")
        .expected("a signature over the files as they are")
        .found(why)
}

/// The keys that the operator trusts.
#[derive(Clone, Default)]
pub struct Keys(Vec<PublicKey>);

impl Keys {
    /// Reads the files. One that cannot be read is logged and trusts no key; the others count.
    pub fn load(files: &[PathBuf]) -> Self {
        let keys = files.iter().filter_map(|file| match read_key(file) {
            Ok(key) => Some(key),
            Err(refusal) => {
                tracing::error!(file = %file.display(), %refusal, "a key of PLUGIN_TRUST_KEYS is ignored");
                None
            }
        });
        Self(keys.collect())
    }

    /// What `signature`, a minisign file, says of the bytes.
    pub fn check(&self, signature: Option<&[u8]>, bytes: &[u8]) -> SignatureState {
        let Some(signature) = signature else { return SignatureState::No };
        let parsed = std::str::from_utf8(signature).ok().map(SignatureBox::from_string);
        let Some(Ok(signature)) = parsed else {
            return SignatureState::Wrong("a file that minisign did not make".to_owned());
        };
        let number = key_number(signature.keynum());
        let Some(key) = self.0.iter().find(|key| key.keynum() == signature.keynum()) else {
            return SignatureState::ByStranger(number);
        };
        match minisign::verify(key, &signature, Cursor::new(bytes), true, false, true) {
            Ok(()) => SignatureState::By(Signer(key.to_base64())),
            Err(_) => SignatureState::Wrong(format!("a signature by key {number} over other content")),
        }
    }
}

/// As minisign shows it.
pub fn key_number(bytes: &[u8]) -> String {
    let backwards: Vec<u8> = bytes.iter().rev().copied().collect();
    hex(&backwards).to_uppercase()
}

/// The number of a signer's key.
pub fn signer_number(signer: &Signer) -> String {
    PublicKey::from_base64(&signer.0).map_or_else(|_| signer.0.clone(), |key| key_number(key.keynum()))
}

/// A key says who may run code here: its file is guarded like a plugin's.
fn read_key(file: &Path) -> Result<PublicKey, Refusal> {
    let bad =
        |found: String| Refusal::new(Code::Unreadable, format!("{} is not a public key.", file.display())).found(found);
    let found = std::fs::metadata(file).map_err(|error| bad(error.to_string()))?;
    let file_owner = FileOwner { uid: found.uid(), gid: found.gid(), mode: found.mode() };
    Owners::current().check(file_owner, file)?;
    let text = secret_file::read_small(file).map_err(|error| bad(error.to_string()))?;
    parse_trust_key(&text).map_err(bad)
}

#[cfg(test)]
mod tests {
    use minisign::KeyPair;

    use super::*;

    fn keys(pairs: &[&KeyPair]) -> Keys {
        Keys(pairs.iter().map(|pair| pair.pk.clone()).collect())
    }

    fn sign(pair: &KeyPair, bytes: &[u8]) -> Vec<u8> {
        minisign::sign(None, &pair.sk, Cursor::new(bytes), None, None).unwrap().into_string().into_bytes()
    }

    #[test]
    fn a_signature_is_of_a_key_and_of_bytes() {
        let [ours, other] = [(); 2].map(|()| KeyPair::generate_unencrypted_keypair().unwrap());
        let keys = keys(&[&ours]);
        let good = sign(&ours, b"bytes");
        assert_eq!(keys.check(Some(&good), b"bytes"), SignatureState::By(Signer(ours.pk.to_base64())));
        assert_eq!(keys.check(None, b"bytes"), SignatureState::No);
        assert!(matches!(keys.check(Some(&good), b"other"), SignatureState::Wrong(_)));
        assert!(matches!(keys.check(Some(b"no signature"), b"bytes"), SignatureState::Wrong(_)));
        assert!(matches!(keys.check(Some(&sign(&other, b"bytes")), b"bytes"), SignatureState::ByStranger(_)));
        let mut forged = String::from_utf8(good).unwrap();
        forged = forged.replace("trusted comment: ", "trusted comment: forged ");
        assert!(matches!(keys.check(Some(forged.as_bytes()), b"bytes"), SignatureState::Wrong(_)));
    }

    #[test]
    fn only_a_good_signature_does_where_one_is_demanded() {
        let code = |signed: SignatureState| signed.demand().map_err(|refusal| refusal.code).err();
        assert_eq!(code(SignatureState::By(Signer("k".to_owned()))), None);
        assert_eq!(code(SignatureState::No), Some(Code::SignatureMissing));
        assert_eq!(code(SignatureState::ByStranger("1".to_owned())), Some(Code::SignatureInvalid));
        assert_eq!(code(SignatureState::Wrong("x".to_owned())), Some(Code::SignatureInvalid));
        assert!(
            SignatureState::ByStranger(String::new()).not_wrong().is_ok()
                && SignatureState::Wrong(String::new()).not_wrong().is_err()
        );
    }

    #[test]
    fn a_public_key_is_read_with_and_without_its_comment() {
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        for text in [pair.pk.to_box().unwrap().into_string(), pair.pk.to_base64() + "\n"] {
            assert_eq!(parse_trust_key(&text).unwrap(), pair.pk);
        }
        assert!(parse_trust_key("hello").is_err());
    }
}
