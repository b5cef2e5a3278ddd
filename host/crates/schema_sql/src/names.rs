//! What of PostgreSQL's own a schema.sql may name: types, functions, operator classes, index methods and options.
//!
//! A function is here when it computes from its arguments alone, changes nothing, waits for nothing, reads no table,
//! file or setting, and cannot be made to take much more memory or time than its arguments have: it may run in a
//! session that deletes somebody else's cards. The tests of `host/tests/supervisor/differential.rs` hold it against the
//! server's own list.

use std::collections::HashSet;
use std::sync::LazyLock;

/// A list of names, with white space between them.
#[derive(Clone, Copy)]
pub(super) struct Words(&'static str);

impl Words {
    pub(super) const fn new(words: &'static str) -> Self {
        Self(words)
    }

    pub(super) fn contains(self, name: &str) -> bool {
        self.0.split_ascii_whitespace().any(|word| word == name)
    }

    pub(super) fn list(self) -> String {
        self.0.split_ascii_whitespace().collect::<Vec<_>>().join(", ")
    }
}

/// Printed with their schema. Those that the grammar has words for are in [`KEYWORD_TYPES`].
const TYPES: Words = Words(
    "
    bool bpchar bytea char cidr circle box date daterange datemultirange float4 float8 inet int2 int4 int4range
    int4multirange int8 int8range int8multirange json jsonb line lseg macaddr macaddr8 money name
    numrange nummultirange oid point regclass regconfig text timetz timestamptz tsmultirange
    tsrange tstzmultirange tstzrange tsvector uuid varbit varchar numeric timestamp time interval bit
",
);
/// Not types but short forms for a column with a sequence: no schema before them.
const SERIAL_TYPES: Words = Words("serial serial2 serial4 serial8 bigserial smallserial");
/// PostgreSQL's other types, as far as a plugin might want to name them. Without a schema they would be the plugin's
/// own.
const OTHER_TYPES: Words = Words(
    "
    aclitem cid cstring gtsvector int2vector jsonpath oidvector path polygon refcursor regcollation regdatabase
    regdictionary regnamespace
    regoper regoperator regproc regprocedure regrole regtype tid txid_snapshot xid xid8 xml
",
);

/// Whether it is a type of PostgreSQL's that no plugin may use.
pub(super) fn is_other_type(name: &str) -> bool {
    OTHER_TYPES.contains(name) || is_reserved(name)
}

/// Whether its values are numbers of objects of one database. Their names are looked up anew when the rows come into
/// another one, and PostgreSQL does not upgrade a server that stores most of them: they may stand in an expression, and
/// in no column.
pub(super) fn is_object_number(name: &str) -> bool {
    name.starts_with("reg") && (TYPES.contains(name) || OTHER_TYPES.contains(name))
}

/// Whether PostgreSQL keeps the name for its own catalogs.
pub(super) fn is_reserved(name: &str) -> bool {
    name.starts_with("pg_")
}

/// Types that are words of the grammar when they stand without quotes.
const KEYWORD_TYPES: Words = Words("bigint boolean dec decimal float int integer numeric real smallint");

/// Those that a plugin may use.
pub(super) fn type_names() -> impl Iterator<Item = &'static str> {
    [TYPES, SERIAL_TYPES, KEYWORD_TYPES].into_iter().flat_map(|words| words.0.split_ascii_whitespace())
}

/// How a built-in type is printed; `None` for a name that must be the plugin's own.
pub(super) fn built_in_type(name: &str, is_quoted: bool) -> Option<String> {
    if !is_quoted && (KEYWORD_TYPES.contains(name) || SERIAL_TYPES.contains(name)) {
        return Some(name.to_owned());
    }
    TYPES.contains(name).then(|| in_catalog(name))
}

/// Words with a call's brackets that the grammar knows by itself; they mean the same in every search path.
const KEYWORD_FUNCTIONS: Words = Words(
    "
    coalesce greatest least nullif grouping current_time current_timestamp localtime localtimestamp
",
);

const FUNCTIONS: Words = Words(
    "
    abs acos acosd asin asind atan atan2 atan2d atand cbrt ceil ceiling cos cosd cot cotd degrees div exp floor
    gcd int4 int8 lcm ln log log10 min_scale mod numeric pi power radians random round scale sign sin sind sqrt
    tan tand trim_scale trunc width_bucket

    ascii bit_length btrim casefold char_length character_length chr concat concat_ws convert_from convert_to
    decode encode format initcap left length lower ltrim md5 normalize octet_length overlay position quote_ident
    quote_literal quote_nullable regexp_count regexp_instr regexp_like regexp_match regexp_matches
    regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr replace reverse right rtrim sha224
    sha256 sha384 sha512 split_part starts_with string_to_array string_to_table strpos substr substring to_hex
    translate unistr upper get_bit get_byte set_bit set_byte bit_count

    age clock_timestamp date date_bin date_part date_trunc isfinite justify_days justify_hours justify_interval
    make_date make_interval make_time make_timestamp make_timestamptz now statement_timestamp timezone to_char
    to_date to_number to_timestamp transaction_timestamp

    currval gen_random_uuid lastval nextval setval uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7

    array_to_json json_array_elements json_array_elements_text json_array_length json_build_array
    json_build_object json_each json_each_text json_extract_path json_extract_path_text json_object
    json_object_keys json_strip_nulls json_typeof jsonb_array_elements jsonb_array_elements_text
    jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path
    jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_keys jsonb_pretty jsonb_set jsonb_set_lax
    jsonb_strip_nulls jsonb_typeof row_to_json to_json to_jsonb

    array_append array_cat array_dims array_length array_lower array_ndims array_position array_positions
    array_prepend array_remove array_replace array_to_string array_upper cardinality num_nonnulls num_nulls
    pg_typeof trim_array unnest generate_series generate_subscripts

    daterange datemultirange int4range int4multirange int8range int8multirange isempty lower_inc lower_inf
    multirange numrange nummultirange range_merge tsmultirange tsrange tstzmultirange tstzrange upper_inc
    upper_inf

    enum_first enum_last enum_range abbrev broadcast family host hostmask inet_merge inet_same_family masklen
    netmask network set_masklen area box center circle diameter height point radius slope width
    array_to_tsvector numnode phraseto_tsquery plainto_tsquery setweight
    strip to_tsquery to_tsvector ts_filter tsvector_to_array websearch_to_tsquery

    any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp cume_dist
    dense_rank every first_value json_agg json_object_agg jsonb_agg jsonb_object_agg lag last_value lead max min
    mode nth_value ntile percent_rank percentile_cont percentile_disc range_agg range_intersect_agg rank
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number
    stddev stddev_pop stddev_samp string_agg sum var_pop var_samp variance
",
);

/// How a harmless function of the server is printed.
pub(super) fn function(name: &str) -> Option<String> {
    if KEYWORD_FUNCTIONS.contains(name) {
        return Some(name.to_owned());
    }
    FUNCTIONS.contains(name).then(|| in_catalog(name))
}

/// Every other function of PostgreSQL 15 to 18 that can be called with one argument: `value.name` calls it, too.
static OTHER_FUNCTIONS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| include_str!("other_functions.txt").split_ascii_whitespace().collect());

pub(super) fn is_other_function(name: &str) -> bool {
    OTHER_FUNCTIONS.contains(name)
}

/// Values that the grammar has words for.
pub(super) const VALUE_WORDS: Words = Words("current_date current_time current_timestamp localtime localtimestamp");

/// Words that name who is asking: without quotes they are no columns.
pub(super) const SESSION_WORDS: Words = Words(
    "
    current_catalog current_role current_schema current_user session_user system_user user
",
);

/// Differences within a range, for CREATE TYPE ... AS RANGE.
pub(super) const SUBTYPE_DIFFS: Words = Words(
    "
    float8mi int4range_subdiff int8range_subdiff numrange_subdiff daterange_subdiff tsrange_subdiff
    tstzrange_subdiff
",
);

/// Of PostgreSQL 15 to 18.
pub(super) const OP_CLASSES: Words = Words(
    "
    aclitem_ops array_ops bit_minmax_ops bit_ops bool_ops box_inclusion_ops box_ops bpchar_bloom_ops
    bpchar_minmax_ops bpchar_ops bpchar_pattern_ops bytea_bloom_ops bytea_minmax_ops bytea_ops char_bloom_ops
    char_minmax_ops char_ops cid_ops cidr_ops circle_ops date_bloom_ops date_minmax_multi_ops date_minmax_ops
    date_ops enum_ops float4_bloom_ops float4_minmax_multi_ops float4_minmax_ops float4_ops float8_bloom_ops
    float8_minmax_multi_ops float8_minmax_ops float8_ops inet_bloom_ops inet_inclusion_ops inet_minmax_multi_ops
    inet_minmax_ops inet_ops int2_bloom_ops int2_minmax_multi_ops int2_minmax_ops int2_ops int4_bloom_ops
    int4_minmax_multi_ops int4_minmax_ops int4_ops int8_bloom_ops int8_minmax_multi_ops int8_minmax_ops int8_ops
    interval_bloom_ops interval_minmax_multi_ops interval_minmax_ops interval_ops jsonb_ops jsonb_path_ops
    kd_point_ops macaddr8_bloom_ops macaddr8_minmax_multi_ops macaddr8_minmax_ops macaddr8_ops macaddr_bloom_ops
    macaddr_minmax_multi_ops macaddr_minmax_ops macaddr_ops money_ops multirange_ops name_bloom_ops
    name_minmax_ops name_ops numeric_bloom_ops numeric_minmax_multi_ops numeric_minmax_ops numeric_ops
    oid_bloom_ops oid_minmax_multi_ops oid_minmax_ops oid_ops oidvector_ops pg_lsn_bloom_ops
    pg_lsn_minmax_multi_ops pg_lsn_minmax_ops pg_lsn_ops point_ops poly_ops quad_point_ops range_inclusion_ops
    range_ops record_image_ops record_ops text_bloom_ops text_minmax_ops text_ops text_pattern_ops tid_bloom_ops
    tid_minmax_multi_ops tid_minmax_ops tid_ops time_bloom_ops time_minmax_multi_ops time_minmax_ops time_ops
    timestamp_bloom_ops timestamp_minmax_multi_ops timestamp_minmax_ops timestamp_ops timestamptz_bloom_ops
    timestamptz_minmax_multi_ops timestamptz_minmax_ops timestamptz_ops timetz_bloom_ops timetz_minmax_multi_ops
    timetz_minmax_ops timetz_ops tsquery_ops tsvector_ops uuid_bloom_ops uuid_minmax_multi_ops uuid_minmax_ops
    uuid_ops varbit_minmax_ops varbit_ops varchar_ops varchar_pattern_ops xid8_ops xid_ops
",
);

pub(super) const INDEX_METHODS: Words = Words("btree hash gin gist brin spgist");

/// Of tables, columns, indexes and views; none of them names or runs anything.
pub(super) const OPTIONS: Words = Words(
    "
    fillfactor toast_tuple_target parallel_workers autovacuum_enabled autovacuum_vacuum_threshold
    autovacuum_vacuum_scale_factor autovacuum_vacuum_insert_threshold autovacuum_vacuum_insert_scale_factor
    autovacuum_analyze_threshold autovacuum_analyze_scale_factor n_distinct n_distinct_inherited
    deduplicate_items fastupdate gin_pending_list_limit buffering pages_per_range autosummarize security_barrier
    siglen
",
);

pub(super) const STORAGE_MODES: Words = Words("plain external extended main default");
pub(super) const PARTITIONINGS: Words = Words("range list hash");
pub(super) const SETTING_WORDS: Words = Words("on off auto true false");
pub(super) const COMPRESSIONS: Words = Words("pglz lz4 default");

pub(super) fn in_catalog(name: &str) -> String {
    format!("pg_catalog.{}", super::lexis::quoted(name))
}
