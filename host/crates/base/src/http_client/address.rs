//! Which network addresses are the internet, and which are not: the one table of the host.
//!
//! Whoever may change a card, or call a plugin, often chooses an address that the host then reads, and the host stands
//! inside somebody's network: without this a "picture" could be the cloud's metadata service or a neighbour's database.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::Ipv6Net;

use crate::config::Cidr;

/// Why an address is out of reach, in words that follow "is".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its address is {0}")]
pub struct AddressError(pub &'static str);

/// A range of addresses that is not the internet.
struct Range {
    network: Ipv6Net,
    /// The operator can open it.
    private: bool,
    what: &'static str,
}

/// The IANA registries of special-purpose addresses, and the metadata services that hide in
/// ordinary ranges. The first match counts. IPv4 stands in its IPv6-mapped form.
const SPECIAL: [Range; 31] = [
    v4([100, 100, 100, 200], 32, false, "a cloud metadata service"),
    v4([168, 63, 129, 16], 32, false, "a cloud metadata service"),
    v4([0, 0, 0, 0], 8, false, "not the address of a machine"),
    v4([10, 0, 0, 0], 8, true, "in a private network"),
    v4([100, 64, 0, 0], 10, true, "in a provider's private network"),
    v4([127, 0, 0, 0], 8, true, "this machine itself"),
    v4([169, 254, 0, 0], 16, false, "link-local or a cloud metadata service"),
    v4([172, 16, 0, 0], 12, true, "in a private network"),
    v4([192, 0, 0, 0], 24, false, "reserved"),
    v4([192, 0, 2, 0], 24, false, "reserved for documentation"),
    v4([192, 31, 196, 0], 24, false, "reserved"),
    v4([192, 52, 193, 0], 24, false, "reserved"),
    v4([192, 88, 99, 0], 24, false, "reserved"),
    v4([192, 168, 0, 0], 16, true, "in a private network"),
    v4([192, 175, 48, 0], 24, false, "reserved"),
    v4([198, 18, 0, 0], 15, false, "reserved for tests of networks"),
    v4([198, 51, 100, 0], 24, false, "reserved for documentation"),
    v4([203, 0, 113, 0], 24, false, "reserved for documentation"),
    v4([224, 0, 0, 0], 4, false, "a multicast address"),
    v4([240, 0, 0, 0], 4, false, "reserved"),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, true, "this machine itself"),
    v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254], 128, false, "a cloud metadata service"),
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, false, "a cloud metadata service"),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, true, "in a private network"),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, false, "link-local"),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, false, "a multicast address"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, false, "reserved"),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, false, "reserved for documentation"),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, false, "a tunnel into IPv4"),
    v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48, false, "reserved"),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, false, "reserved for documentation"),
];

/// The only part of IPv6 that is given out for the internet at large.
const INTERNET_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// `64:ff9b::/96`: how a network without IPv4 reaches it (NAT64).
const NAT64: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Asked about the very address that is connected to, after the name was resolved. `opened` are private networks that
/// the operator has opened; what is no private network, it does not open.
///
/// # Errors
/// The address is not on the internet, and not in a network that is open.
pub(super) fn check(address: IpAddr, opened: &[Cidr]) -> Result<(), AddressError> {
    let address = mapped(address);
    if let Some(range) = SPECIAL.iter().find(|range| range.network.contains(&address)) {
        let is_open = range.private && opened.iter().any(|network| network.contains(address.into()));
        return if is_open { Ok(()) } else { Err(AddressError(range.what)) };
    }
    if address.to_ipv4_mapped().is_some() || INTERNET_V6.contains(&address) {
        Ok(())
    } else {
        Err(AddressError("reserved"))
    }
}

/// IPv4, however it is wrapped, as IPv4-mapped IPv6: one form to compare.
fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) if NAT64.contains(&address) => {
            let [.., a, b, c, d] = address.octets();
            Ipv4Addr::new(a, b, c, d).to_ipv6_mapped()
        }
        IpAddr::V6(address) => address,
    }
}

const fn v4([a, b, c, d]: [u8; 4], prefix: u8, private: bool, what: &'static str) -> Range {
    let first = Ipv4Addr::new(a, b, c, d).to_ipv6_mapped();
    Range { network: Ipv6Net::new_assert(first, 96 + prefix), private, what }
}

const fn v6(segments: [u16; 8], prefix: u8, private: bool, what: &'static str) -> Range {
    let [a, b, c, d, e, f, g, h] = segments;
    let first = Ipv6Addr::new(a, b, c, d, e, f, g, h);
    Range { network: Ipv6Net::new_assert(first, prefix), private, what }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn reachable(address: &str, opened: &[&str]) -> bool {
        let opened: Vec<Cidr> = opened.iter().map(|network| network.parse().unwrap()).collect();
        check(address.parse().unwrap(), &opened).is_ok()
    }

    /// All that there is, private networks included.
    const EVERYTHING: [&str; 2] = ["0.0.0.0/0", "::/0"];

    #[test]
    fn the_internet_is_always_reachable() {
        for address in [
            "1.1.1.1",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450:4001:81b::200e",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
        ] {
            assert!(reachable(address, &[]) && reachable(address, &EVERYTHING), "{address}");
        }
    }

    #[test]
    fn private_networks_are_reachable_once_they_are_opened() {
        for address in [
            "127.0.0.1",
            "127.255.255.254",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "::1",
            "fc00::1",
            "fdff::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
        ] {
            assert!(!reachable(address, &[]) && reachable(address, &EVERYTHING), "{address}");
        }
        for (address, network) in [
            ("127.0.0.1", "127.0.0.0/8"),
            ("10.1.2.3", "10.1.0.0/16"),
            ("192.168.1.1", "192.168.1.1"),
            ("::ffff:10.1.2.3", "10.1.0.0/16"),
            ("64:ff9b::a01:203", "10.1.0.0/16"),
            ("::1", "::1"),
            ("fd00::1", "fd00::/8"),
        ] {
            assert!(!reachable(address, &["172.16.0.0/12"]), "{address}");
            assert!(reachable(address, &[network]), "{address}");
        }
    }

    #[test]
    fn nothing_opens_the_rest() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "100.100.100.200",
            "168.63.129.16",
            "169.254.169.254",
            "169.254.0.1",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::7f00:1",
            "::ffff:0:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a00:1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "5f00::1",
            "4000::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!reachable(address, &EVERYTHING), "{address}");
        }
    }

    #[test]
    fn the_refusal_says_what_the_address_is() {
        assert_eq!(check("127.0.0.1".parse().unwrap(), &[]), Err(AddressError("this machine itself")));
    }
}
