use std::path::PathBuf;

use url::Url;

use super::{Secret, reader::BadSettings, reader::Reader};

const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// What holds the key when no file does; never a flag, which everybody on the machine could read.
const KEY: &str = "CARDINAL_API_KEY";

/// Where a command finds a host, as it was typed. The key comes from CARDINAL_API_KEY or a file.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct ClientSettings {
    /// Address of the host: http or https and a name, e.g. https://shop.example.com [default: http://127.0.0.1:8080]
    #[arg(long = "url", env = "CARDINAL_URL", value_name = "URL", help_heading = "The host")]
    cardinal_url: Option<String>,
    /// File with the API key; without it the key is that of the environment variable CARDINAL_API_KEY
    #[arg(long, value_name = "FILE", help_heading = "The host")]
    key_file: Option<PathBuf>,
}

/// A host to talk to, and with what credential.
#[derive(Debug, Clone)]
pub struct Remote {
    /// Scheme and authority alone.
    pub url: Url,
    pub key: Option<Secret>,
}

impl ClientSettings {
    /// # Errors
    /// All that is wrong, at once.
    pub fn read(&self) -> Result<Remote, BadSettings> {
        self.read_with(std::env::var(KEY).ok())
    }

    fn read_with(&self, key: Option<String>) -> Result<Remote, BadSettings> {
        let mut reader = Reader::default();
        let url = reader.optional("CARDINAL_URL", &self.cardinal_url, address);
        let key = match &self.key_file {
            Some(file) => match std::fs::read_to_string(file) {
                Ok(text) => Some(text),
                Err(error) => {
                    reader.fault("KEY_FILE", format!("{}: {error}", file.display()));
                    None
                }
            },
            None => key,
        };
        let key = key.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        if key.as_ref().is_some_and(|key| !key.bytes().all(|byte| byte.is_ascii_graphic())) {
            reader.fault(KEY, "this is no credential: it holds spaces or characters beyond ASCII");
        }
        let fallback = address(DEFAULT_URL).ok();
        match url.or(fallback) {
            Some(url) => reader.finish(Remote { url, key: key.map(Secret::new) }),
            None => Err(BadSettings::one("CARDINAL_URL", "is missing")),
        }
    }
}

fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("{text:?} is no address: {error}"))?;
    let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() || !is_plain || url.password().is_some() {
        return Err(format!("{text:?} is not http:// or https:// and a name, without a path"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: Option<&str>, key: Option<&str>) -> Result<Remote, BadSettings> {
        let settings = ClientSettings { cardinal_url: url.map(str::to_owned), key_file: None };
        settings.read_with(key.map(str::to_owned))
    }

    #[test]
    fn an_address_is_a_scheme_and_a_name() {
        assert_eq!(read(None, None).unwrap().url.as_str(), "http://127.0.0.1:8080/");
        assert_eq!(read(Some("https://shop.example.com"), None).unwrap().url.port_or_known_default(), Some(443));
        for bad in ["shop.example.com", "ftp://x", "http://x/path", "http://user:secret@x", "http://x?y", "unix:/x"] {
            let fault = read(Some(bad), None).unwrap_err();
            assert_eq!(fault.0[0].setting, "CARDINAL_URL", "{bad}");
        }
    }

    #[test]
    fn a_key_has_no_white_space_inside() {
        assert_eq!(read(None, Some(" mpk_x\n")).unwrap().key.unwrap().expose(), "mpk_x");
        assert!(read(None, Some(" ")).unwrap().key.is_none());
        assert_eq!(read(None, Some("a b")).unwrap_err().0[0].setting, KEY);
    }
}
