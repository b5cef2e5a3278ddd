use std::{
    fs,
    io::{Cursor, ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use minisign::{KeyPair, PublicKey, SecretKey, SecretKeyBox};

use cardinal_package::{
    package::{Form, Package},
    signature::{SUFFIX, SUMS, key_number},
};
use cardinal_plugin_host::inspect::inspect;

/// What minisign appends to the name of a public key.
const PUBLIC: &str = ".pub";

/// Sign a plugin package with a minisign key
///
/// Writes LIBRARY.so.minisig beside a library, or SHA256SUMS and SHA256SUMS.minisig into a folder. Signatures and keys
/// are minisign's own: `minisign -V` checks them. A host takes them when its PLUGIN_TRUST_KEYS names the public key.
/// A signature is of the bytes that are there: sign after `cardinal plugin pack`, or let that do it.
/// With --generate a pair of keys is made first: the secret one without a password, readable by you alone, and FILE.pub
/// beside it. A key that minisign has made with a password is asked for it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin sign --generate --key vendor.key
      makes vendor.key and vendor.key.pub, and signs nothing
  cardinal plugin sign --key vendor.key notes.so
  cardinal plugin sign --key vendor.key var/plugins/notes")]
pub(super) struct Args {
    /// A shared library that carries everything, or a plugin's folder
    #[arg(required_unless_present = "generate")]
    package: Option<PathBuf>,
    /// File with the secret key
    #[arg(long, short, value_name = "FILE")]
    key: PathBuf,
    /// Make the key first
    #[arg(long)]
    generate: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut output = std::io::stdout();
    if args.generate {
        let public = generate(&args.key)?;
        writeln!(output, "{} (keep it), {} (for PLUGIN_TRUST_KEYS)", args.key.display(), public.display())?;
    }
    let Some(package) = &args.package else { return Ok(()) };
    ensure!(package.exists(), "{} does not exist", package.display());
    writeln!(output, "{}", sign(package, &secret(&args.key)?)?)?;
    Ok(())
}

/// Signs a package; the signature's file and the key, for people.
pub(super) fn sign(package: &Path, key: &SecretKey) -> anyhow::Result<String> {
    let path = package.canonicalize().with_context(|| format!("looking for {}", package.display()))?;
    let package = checked(&path)?;
    let public = PublicKey::from_secret_key(key).context("reading the secret key")?;
    let signed = match package.form {
        Form::SingleFile => path,
        Form::Folder => {
            let sums = path.join(SUMS);
            put(&sums, package.sums().as_bytes())?;
            sums
        }
    };
    let name = signed.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let trusted = format!("file:{name}\tsha256:{}", package.sha256);
    let bytes = Cursor::new(package.signed_bytes());
    let signature = minisign::sign(Some(&public), key, bytes, Some(&trusted), None).context("signing")?;
    let file = signature_of(&signed);
    put(&file, signature.into_string().as_bytes())?;
    Ok(format!("{} (key {})", file.display(), key_number(public.keynum())))
}

/// Where the signature of a file lies.
pub(super) fn signature_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(SUFFIX);
    PathBuf::from(name)
}

/// A package that a host would go on with: a signature is a word on it.
fn checked(path: &Path) -> anyhow::Result<Package> {
    match inspect(path) {
        (seen, Some(package)) if seen.ok => Ok(package),
        (seen, _) => match seen.refusal {
            Some(refusal) => bail!("{}: {refusal}", path.display()),
            None => bail!("{} cannot be read", path.display()),
        },
    }
}

/// Never over a key that is there: whatever it has signed would have nobody to sign its next version.
fn generate(file: &Path) -> anyhow::Result<PathBuf> {
    let mut public = file.as_os_str().to_owned();
    public.push(PUBLIC);
    let public = PathBuf::from(public);
    ensure!(!public.exists(), "{} already exists", public.display());
    let pair = KeyPair::generate_unencrypted_keypair().context("generating the keys")?;
    let secret = pair.sk.to_box(Some("Cardinal plugins: secret key")).context("writing the secret key")?;
    let mut written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .with_context(|| format!("making {}", file.display()))?;
    written.write_all(secret.into_string().as_bytes()).context("writing the secret key")?;
    let text = pair.pk.to_box().context("writing the public key")?.into_string();
    fs::write(&public, text).with_context(|| format!("writing {}", public.display()))?;
    Ok(public)
}

pub(super) fn secret(file: &Path) -> anyhow::Result<SecretKey> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{} does not exist; `cardinal plugin sign --generate --key FILE` generates a key", file.display())
        }
        Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
    };
    let boxed = || SecretKeyBox::from_string(&text).with_context(|| format!("reading {}", file.display()));
    match boxed()?.into_unencrypted_secret_key() {
        Ok(key) => Ok(key),
        // With a password, which is asked for at the terminal.
        Err(_) => {
            boxed()?.into_secret_key(None).with_context(|| format!("{} is not a minisign secret key", file.display()))
        }
    }
}

fn put(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(file, bytes).with_context(|| format!("writing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use cardinal_base::config::parse_trust_key;

    #[test]
    fn a_key_is_made_once_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vendor.key");
        let public = generate(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let key = secret(&file).unwrap();
        let public = parse_trust_key(&fs::read_to_string(public).unwrap()).unwrap();
        assert_eq!(PublicKey::from_secret_key(&key).unwrap(), public);
        assert!(generate(&file).is_err(), "a key is never overwritten");
        assert!(secret(&folder.path().join("none")).unwrap_err().to_string().contains("--generate"));
    }
}
