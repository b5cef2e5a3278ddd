//! Black-box tests, a module per subject. See `tests/README.md`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod it {
    mod access;
    mod audit;
    mod backup;
    mod browser;
    mod card_list;
    mod cards;
    mod cors;
    mod crash;
    mod events;
    mod events_readers;
    mod jobs;
    mod keys;
    mod kinds;
    mod limits;
    mod login;
    mod mcp;
    mod oidc;
    mod oidc_keys;
    mod openapi;
    mod plugin_calls;
    mod problems;
    mod processes;
    mod proxy;
    mod proxy_load;
    mod proxy_nginx;
    mod proxy_routes;
    mod proxy_tunnels;
    mod proxy_walls;
    mod proxy_wire;
    mod refusals;
    mod secrets;
    mod sessions;
    mod settings;
    mod single_file;
    mod standalone;
    mod supplier;
    mod supplier_sites;
    mod telemetry;
    mod tidy;
    mod users;
    mod views;
    mod walk;
}
