//! An operator's word on a package that was refused for it: it may lose data, or another signer may have its name.
//! Given for the package that lies there, by its hash, so that nothing else slips in under it.

use serde_json::{Value, json};

use super::{Registry, candidate::PackageSummary};
use crate::error::RegistryError;
use cardinal_package::{
    refusal::{Code, Refusal},
    signature::{SignatureState, Signer, signer_number},
};
use cardinal_store::plugins;

impl Registry {
    /// Agrees that the package's schema.sql loses what the refusal names. Gives what the audit is to know.
    pub async fn confirm_migration(&self, plugin: &str, sha256: &str, by: &Value) -> Result<Value, RegistryError> {
        let (in_folder, refusal) = self.refused_for(plugin, sha256, Code::DestructiveMigration)?;
        let version = in_folder.manifest.as_ref().map(|manifest| manifest.version.to_string()).unwrap_or_default();
        let core = &self.activation.loader.services.core;
        plugins::confirmations::confirm(core, plugin, sha256, &refusal.losses, by).await?;
        plugins::versions::confirm_destructive(core, plugin, sha256, &version, by).await?;
        Ok(json!({"sha256": sha256, "version": version, "losses": refusal.losses}))
    }

    /// Gives the plugin's name to the signer of the package that lies there. Returns the detail for the audit log.
    pub async fn accept_signer(&self, plugin: &str, sha256: &str, by: &Value) -> Result<Value, RegistryError> {
        let (in_folder, refusal) = self.refused_for(plugin, sha256, Code::SignerChanged)?;
        let signer = match &in_folder.signed {
            SignatureState::By(signer) => Some(signer),
            SignatureState::No => None,
            SignatureState::ByStranger(_) | SignatureState::Wrong(_) => {
                let detail = "The package is signed by a key that this host does not know: name the key's file in \
                              PLUGIN_TRUST_KEYS first.";
                return Err(RegistryError::Conflict(detail.to_owned()));
            }
        };
        let key = signer.map(|Signer(key)| key.as_str());
        plugins::owners::hand_over(&self.activation.loader.services.core, plugin, key, by).await?;
        Ok(json!({"sha256": sha256, "before": refusal.expected, "now": signer.map(signer_number)}))
    }

    /// The package that lies there, when it has this hash and is refused for this.
    fn refused_for(&self, plugin: &str, sha256: &str, code: Code) -> Result<(PackageSummary, Refusal), RegistryError> {
        let snapshot = self.snapshot();
        let known = snapshot.in_folder(plugin).ok_or(RegistryError::NotFound("plugin"))?;
        let Some((in_folder, refusal)) = snapshot.refused(plugin, code) else {
            let detail = format!("The plugin is not refused as {code}, so there is nothing to confirm.");
            return Err(RegistryError::OtherPackage { detail, sha256: known.sha256.clone() });
        };
        if in_folder.sha256.as_deref() != Some(sha256) {
            let detail =
                "The package in the plugins folder is not the one that was meant: look at it again.".to_owned();
            return Err(RegistryError::OtherPackage { detail, sha256: in_folder.sha256.clone() });
        }
        Ok((in_folder.clone(), refusal.clone()))
    }
}
