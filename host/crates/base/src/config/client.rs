use std::path::{Path, PathBuf};

use url::Url;

use super::{
    Secret,
    paths::{DEFAULT_DATA_DIR, DEV_DATA_DIR, absolute, folder},
    reader::{Reader, SettingsError},
};

const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// What holds the key when no file does; never a flag, which everybody on the machine could read.
const KEY: &str = "CARDINAL_API_KEY";

/// Where a command finds a host, as it was typed. The key comes from CARDINAL_API_KEY or a file.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct ClientSettings {
    #[command(flatten)]
    remote: RemoteSettings,
    /// Folder of the host on this machine that is talked to without a key, e.g. /var/lib/cardinal [default: ./var/data;
    /// without a host there, that of `cardinal plugin dev` in ./target/cardinal/data]
    #[arg(long, env, value_name = "DIR", help_heading = "The host")]
    data_dir: Option<String>,
}

/// The address of a host and the file with the key to it.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct RemoteSettings {
    /// Address of the host: http or https and a name, e.g. https://shop.example.com
    /// [default: the host in DATA_DIR; with a key http://127.0.0.1:8080]
    #[arg(long = "url", env = "CARDINAL_URL", value_name = "URL", help_heading = "The host")]
    cardinal_url: Option<String>,
    /// File with the API key; without it the key is that of the environment variable CARDINAL_API_KEY
    #[arg(long, value_name = "FILE", help_heading = "The host")]
    key_file: Option<PathBuf>,
}

/// Where a host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEndpoint {
    /// Scheme and authority alone.
    Address(Url),
    /// On this machine, by its `DATA_DIR`.
    Local(PathBuf),
    /// Nobody named one: on this machine, in the first of these folders where a host is.
    Usual([PathBuf; 2]),
}

/// A host to talk to, and with what credential.
#[derive(Debug, Clone)]
pub struct Remote {
    pub way: HostEndpoint,
    pub key: Option<Secret>,
}

impl ClientSettings {
    /// Whether a host was named, by its folder, its address or a key.
    pub fn is_named(&self) -> bool {
        let has_key = self.remote.key_file.is_some() || std::env::var_os(KEY).is_some();
        self.data_dir.is_some() || self.remote.cardinal_url.is_some() || has_key
    }

    /// # Errors
    /// All that is wrong, at once.
    pub fn read(&self) -> Result<Remote, SettingsError> {
        self.read_for(Path::new("."))
    }

    /// The same; where none is named, the host of `cardinal plugin dev` is the one of this crate.
    ///
    /// # Errors
    /// All that is wrong, at once.
    pub fn read_for(&self, crate_folder: &Path) -> Result<Remote, SettingsError> {
        self.read_with(std::env::var(KEY).ok(), crate_folder)
    }

    fn read_with(&self, key: Option<String>, crate_folder: &Path) -> Result<Remote, SettingsError> {
        let mut reader = Reader::default();
        let (url, key) = self.remote.read_parts(key, &mut reader);
        let data_dir = reader.optional("DATA_DIR", &self.data_dir, folder);
        let usual = |path: PathBuf| absolute(path).map_err(|it| SettingsError::one("DATA_DIR", it));
        // Without a key a host on this machine knows who asks by the system's word.
        let way = match (url, data_dir) {
            (Some(url), _) => HostEndpoint::Address(url),
            (None, Some(data_dir)) => HostEndpoint::Local(data_dir),
            (None, None) => {
                HostEndpoint::Usual([usual(DEFAULT_DATA_DIR.into())?, usual(crate_folder.join(DEV_DATA_DIR))?])
            }
        };
        reader.finish(Remote { way, key })
    }
}

impl RemoteSettings {
    /// The host at an address, where an address or a key is given.
    ///
    /// # Errors
    /// All that is wrong, at once.
    pub fn read(&self) -> Result<Option<Remote>, SettingsError> {
        let mut reader = Reader::default();
        let (url, key) = self.read_parts(std::env::var(KEY).ok(), &mut reader);
        reader.finish(url.map(|url| Remote { way: HostEndpoint::Address(url), key }))
    }

    /// Whoever has a key and no address means the host at the usual one.
    fn read_parts(&self, key: Option<String>, reader: &mut Reader) -> (Option<Url>, Option<Secret>) {
        let url = reader.optional("CARDINAL_URL", &self.cardinal_url, address);
        let key = match &self.key_file {
            Some(file) => match std::fs::read_to_string(file) {
                Ok(text) => Some(text),
                Err(error) => {
                    reader.fault("--key-file", format!("{} cannot be read: {error}", file.display()));
                    None
                }
            },
            None => key,
        };
        let key = key.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        if key.as_ref().is_some_and(|key| !key.bytes().all(|byte| byte.is_ascii_graphic())) {
            reader.fault(KEY, "this is not a credential: it contains spaces or non-ASCII characters");
        }
        let url = url.or_else(|| key.as_ref().and_then(|_| address(DEFAULT_URL).ok()));
        (url, key.map(Secret::new))
    }
}

fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("{text:?} is not a URL: {error}"))?;
    let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() || !is_plain || url.password().is_some() {
        return Err(format!("{text:?} must be http:// or https:// and a host name, without a path"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: Option<&str>, key: Option<&str>) -> Result<Remote, SettingsError> {
        let remote = RemoteSettings { cardinal_url: url.map(str::to_owned), key_file: None };
        let settings = ClientSettings { remote, data_dir: None };
        settings.read_with(key.map(str::to_owned), Path::new("."))
    }

    #[test]
    fn an_address_is_a_scheme_and_a_name() {
        let way = |url: &str| HostEndpoint::Address(Url::parse(url).unwrap());
        assert_eq!(read(None, Some("mpk_x")).unwrap().way, way("http://127.0.0.1:8080"));
        assert_eq!(read(Some("https://shop.example.com"), None).unwrap().way, way("https://shop.example.com"));
        for bad in ["shop.example.com", "ftp://x", "http://x/path", "http://user:secret@x", "http://x?y", "unix:/x"] {
            let fault = read(Some(bad), None).unwrap_err();
            assert_eq!(fault.0[0].setting, "CARDINAL_URL", "{bad}");
        }
    }

    #[test]
    fn without_key_and_address_the_host_on_this_machine_is_meant() {
        let HostEndpoint::Usual([usual, dev]) = read(None, None).unwrap().way else { panic!("an address") };
        assert!(usual.is_absolute() && usual.ends_with("var/data"), "{usual:?}");
        assert!(dev.is_absolute() && dev.ends_with("target/cardinal/data"), "{dev:?}");
        let named = ClientSettings { data_dir: Some("/var/lib/x".to_owned()), ..ClientSettings::default() };
        let way = named.read_with(None, Path::new("notes")).unwrap().way;
        assert_eq!(way, HostEndpoint::Local("/var/lib/x".into()), "one that is named is the only one");
        let of_crate = ClientSettings::default().read_with(None, Path::new("/notes")).unwrap().way;
        assert!(matches!(of_crate, HostEndpoint::Usual([_, dev]) if dev == Path::new("/notes/target/cardinal/data")));
    }

    #[test]
    fn a_key_has_no_white_space_inside() {
        assert_eq!(read(None, Some(" mpk_x\n")).unwrap().key.unwrap().expose(), "mpk_x");
        assert!(read(None, Some(" ")).unwrap().key.is_none());
        assert_eq!(read(None, Some("a b")).unwrap_err().0[0].setting, KEY);
    }
}
