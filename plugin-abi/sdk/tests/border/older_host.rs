//! A plugin of this SDK in a host of before: what came later is missing, and says so.

use std::sync::OnceLock;

use cardinal_plugin::{
    __private::abi::{HostApi, HostApiRef, abi_stable::prefix_type::PrefixTypeTrait},
    block_on,
};

use super::{fake_host::api, plugin::Instance};

/// The table of a host without extensions.
fn older_api() -> HostApiRef {
    extern "C" fn none(_: u32) -> *const () {
        std::ptr::null()
    }
    static OLDER: OnceLock<HostApiRef> = OnceLock::new();
    let now = api();
    *OLDER.get_or_init(|| {
        HostApi {
            log: now.log(),
            metric: now.metric(),
            settings: now.settings(),
            service_user: now.service_user(),
            cancelled: now.cancelled(),
            read_card: now.read_card(),
            list_cards: now.list_cards(),
            card_events: now.card_events(),
            enrich_card: now.enrich_card(),
            remove_source: now.remove_source(),
            db_connect: now.db_connect(),
            db_release: now.db_release(),
            db_prepare: now.db_prepare(),
            db_query: now.db_query(),
            db_execute: now.db_execute(),
            db_batch: now.db_batch(),
            db_copy_in: now.db_copy_in(),
            db_copy_out: now.db_copy_out(),
            connect_options: now.connect_options(),
            register_thread: now.register_thread(),
            progress: now.progress(),
            get_extension: none,
        }
        .leak_into_prefix()
    })
}

#[test]
fn what_it_lacks_is_an_error_that_names_what_to_require() {
    let plugin = Instance::in_host(older_api());
    let ctx = plugin.context();
    let listen = block_on(ctx.listen("orders")).unwrap_err();
    let conn = block_on(ctx.get_plugin_conn()).unwrap();
    let notify = block_on(conn.notify("orders", "")).unwrap_err();
    let send = block_on(ctx.http().get("https://shop.example/").send()).unwrap_err();
    for (error, feature) in [(listen, "listen"), (notify, "listen"), (send, "http-client")] {
        let text = error.to_string();
        assert!(text.contains(&format!("\"requires\": [\"{feature}\"]")), "{text}");
        assert!(!error.is_retryable() && !error.is_cancelled(), "{text}");
    }
}
