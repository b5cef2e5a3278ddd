//! Private networks that plugins may reach: `10.20.0.0/16,supplier=192.168.7.0/24`.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{
    network::Cidr,
    per_plugin::{is_name, split_item},
};

/// Networks for all plugins, and further ones for some by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginNetworks {
    everyone: Vec<Cidr>,
    by_name: BTreeMap<String, Vec<Cidr>>,
}

impl PluginNetworks {
    /// What a plugin may reach beyond the internet.
    pub fn get(&self, plugin: &str) -> Vec<Cidr> {
        let own = self.by_name.get(plugin).into_iter().flatten();
        self.everyone.iter().chain(own).copied().collect()
    }

    /// The plugins that are named.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// From items of `network` and `name=network`.
    pub(super) fn collect(items: Vec<(Option<String>, Cidr)>) -> Self {
        let mut setting = Self::default();
        for (plugin, network) in items {
            match plugin {
                Some(plugin) => setting.by_name.entry(plugin).or_default().push(network),
                None => setting.everyone.push(network),
            }
        }
        setting
    }

    /// One item of the list.
    pub(super) fn item(text: &str) -> Result<(Option<String>, Cidr), String> {
        let (plugin, network) = split_item(text);
        match plugin {
            Some(name) if !is_name(name) => Err(format!("{name:?} is not the name of a plugin")),
            plugin => Ok((plugin.map(str::to_owned), network.parse()?)),
        }
    }
}

impl fmt::Display for PluginNetworks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let everyone = self.everyone.iter().map(ToString::to_string);
        let named =
            self.by_name.iter().flat_map(|(name, networks)| networks.iter().map(move |it| format!("{name}={it}")));
        out.write_str(&everyone.chain(named).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_networks_for_all_and_more_for_some() {
        let items = ["10.20.0.0/16", "supplier=192.168.7.1", "supplier = fd00::/8"];
        let setting = PluginNetworks::collect(items.map(|text| PluginNetworks::item(text).unwrap()).into());
        let networks = |plugin| setting.get(plugin).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(networks("gallery"), ["10.20.0.0/16"]);
        assert_eq!(networks("supplier"), ["10.20.0.0/16", "192.168.7.1/32", "fd00::/8"]);
        assert_eq!(setting.names().collect::<Vec<_>>(), ["supplier"]);
        assert_eq!(setting.to_string(), "10.20.0.0/16,supplier=192.168.7.1/32,supplier=fd00::/8");
        for bad in
            ["everything", "supplier=", "=10.0.0.0/8", "Supplier=10.0.0.0/8", "10.0.0.0/8=supplier", "10.0.0.0/40"]
        {
            assert!(PluginNetworks::item(bad).is_err(), "{bad}");
        }
    }
}
