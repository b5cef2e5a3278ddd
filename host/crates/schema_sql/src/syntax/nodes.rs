//! Which nodes of PostgreSQL's grammar may stand in a statement, and which words and signs each of them has.
//!
//! Names, values, types and calls are not in these tables: `print` writes those itself.

mod queries;

use squawk_syntax::SyntaxKind::{self, *};

/// The words and signs that a node may have of its own, commas and brackets apart; `None` for a node that is not on
/// the list.
pub(in super::super) fn tokens(kind: SyntaxKind) -> Option<&'static [SyntaxKind]> {
    statements(kind)
        .or_else(|| tables(kind))
        .or_else(|| constraints(kind))
        .or_else(|| types_and_sequences(kind))
        .or_else(|| alterations(kind))
        .or_else(|| queries::tokens(kind))
}

fn statements(kind: SyntaxKind) -> Option<&'static [SyntaxKind]> {
    Some(match kind {
        CREATE_TABLE => &[CREATE_KW, TABLE_KW],
        CREATE_INDEX => &[CREATE_KW, UNIQUE_KW, INDEX_KW, ON_KW],
        CREATE_SEQUENCE => &[CREATE_KW, SEQUENCE_KW],
        CREATE_VIEW => &[CREATE_KW, VIEW_KW, AS_KW],
        CREATE_TYPE => &[CREATE_KW, TYPE_KW],
        CREATE_DOMAIN => &[CREATE_KW, DOMAIN_KW, AS_KW],
        ALTER_TABLE => &[ALTER_KW, TABLE_KW],
        ALTER_INDEX => &[ALTER_KW, INDEX_KW],
        ALTER_SEQUENCE => &[ALTER_KW, SEQUENCE_KW],
        ALTER_VIEW => &[ALTER_KW, VIEW_KW],
        ALTER_TYPE => &[ALTER_KW, TYPE_KW],
        ALTER_DOMAIN => &[ALTER_KW, DOMAIN_KW],
        DROP_TABLE => &[DROP_KW, TABLE_KW],
        DROP_INDEX => &[DROP_KW, INDEX_KW],
        DROP_SEQUENCE => &[DROP_KW, SEQUENCE_KW],
        DROP_VIEW => &[DROP_KW, VIEW_KW],
        DROP_TYPE => &[DROP_KW, TYPE_KW],
        DROP_DOMAIN => &[DROP_KW, DOMAIN_KW],
        COMMENT_ON => &[COMMENT_KW, ON_KW, IS_KW, NULL_KW],
        INSERT => &[INSERT_KW, INTO_KW],
        SyntaxKind::UPDATE => &[UPDATE_KW],
        DELETE => &[DELETE_KW, FROM_KW],
        SyntaxKind::SELECT | COMPOUND_SELECT | PAREN_SELECT => &[],
        VALUES => &[VALUES_KW],
        IF_NOT_EXISTS => &[IF_KW, NOT_KW, EXISTS_KW],
        IF_EXISTS => &[IF_KW, EXISTS_KW],
        OR_REPLACE => &[OR_KW, REPLACE_KW],
        UNLOGGED => &[UNLOGGED_KW],
        CASCADE => &[CASCADE_KW],
        RESTRICT => &[RESTRICT_KW],
        OBJECT_TABLE => &[TABLE_KW],
        OBJECT_COLUMN => &[COLUMN_KW],
        OBJECT_TYPE => &[TYPE_KW],
        OBJECT_DOMAIN => &[DOMAIN_KW],
        OBJECT_INDEX => &[INDEX_KW],
        OBJECT_SEQUENCE => &[SEQUENCE_KW],
        OBJECT_VIEW => &[VIEW_KW],
        OBJECT_CONSTRAINT => &[CONSTRAINT_KW, ON_KW, DOMAIN_KW],
        _ => return None,
    })
}

fn tables(kind: SyntaxKind) -> Option<&'static [SyntaxKind]> {
    Some(match kind {
        TABLE_ARG_LIST
        | COLUMN
        | INDEX_PARAMETERS
        | CONSTRAINT_COLUMN_REF_LIST
        | COLUMN_REF_LIST
        | COLUMN_LIST
        | PARTITION_ITEM_LIST
        | PARTITION_ITEM
        | FOREIGN_KEY_COLUMN_LIST
        | CONSTRAINT_EXCLUSION_LIST
        | SEQUENCE_OPTION_LIST
        | PARTITION_FROM_VALUES
        | PARTITION_TO_VALUES => &[],
        LIKE_CLAUSE => &[LIKE_KW],
        INCLUDING_PROPERTY => &[INCLUDING_KW],
        EXCLUDING_PROPERTY => &[EXCLUDING_KW],
        PROPERTY_ALL => &[ALL_KW],
        PROPERTY_COMMENTS => &[COMMENTS_KW],
        PROPERTY_CONSTRAINTS => &[CONSTRAINTS_KW],
        PROPERTY_DEFAULTS => &[DEFAULTS_KW],
        PROPERTY_GENERATED => &[GENERATED_KW],
        PROPERTY_IDENTITY => &[IDENTITY_KW],
        PROPERTY_INDEXES => &[INDEXES_KW],
        PROPERTY_STORAGE => &[STORAGE_KW],
        INHERITS => &[INHERITS_KW],
        PARTITION_BY => &[PARTITION_KW, BY_KW],
        PARTITION_STRATEGY => &[RANGE_KW],
        PARTITION_OF => &[PARTITION_KW, OF_KW],
        PARTITION_DEFAULT => &[DEFAULT_KW],
        PARTITION_FOR_VALUES_IN => &[FOR_KW, VALUES_KW, IN_KW],
        PARTITION_FOR_VALUES_FROM => &[FOR_KW, VALUES_KW, FROM_KW, TO_KW],
        PARTITION_FOR_VALUES_WITH => &[FOR_KW, VALUES_KW, WITH_KW],
        TABLE_RELATION_NAME | RELATION_NAME => &[ONLY_KW, STAR],
        SORT_ASC => &[ASC_KW],
        SORT_DESC => &[DESC_KW],
        NULLS_FIRST => &[NULLS_KW, FIRST_KW],
        NULLS_LAST => &[NULLS_KW, LAST_KW],
        WITH_CHECK_OPTION => &[WITH_KW, CHECK_KW, OPTION_KW],
        CASCADED_CHECK_OPTION => &[CASCADED_KW],
        LOCAL_CHECK_OPTION => &[LOCAL_KW],
        _ => return None,
    })
}

fn constraints(kind: SyntaxKind) -> Option<&'static [SyntaxKind]> {
    Some(match kind {
        CONSTRAINT_NAME_CLAUSE => &[CONSTRAINT_KW],
        NOT_NULL_CONSTRAINT => &[NOT_KW, NULL_KW],
        NULL_CONSTRAINT => &[NULL_KW],
        DEFAULT_CONSTRAINT => &[DEFAULT_KW],
        CHECK_CONSTRAINT => &[CHECK_KW],
        UNIQUE_CONSTRAINT => &[UNIQUE_KW],
        PRIMARY_KEY_CONSTRAINT => &[PRIMARY_KW, KEY_KW],
        USING_INDEX_NAME => &[USING_KW, INDEX_KW],
        CONSTRAINT_INCLUDE_CLAUSE | INDEX_INCLUDE_CLAUSE => &[INCLUDE_KW],
        NULLS_NOT_DISTINCT => &[NULLS_KW, NOT_KW, DISTINCT_KW],
        NULLS_DISTINCT => &[NULLS_KW, DISTINCT_KW],
        GENERATED_CONSTRAINT => &[GENERATED_KW],
        GENERATED_IDENTITY => &[AS_KW, IDENTITY_KW],
        GENERATED_ALWAYS => &[ALWAYS_KW],
        GENERATED_BY_DEFAULT => &[BY_KW, DEFAULT_KW],
        GENERATED_STORED => &[AS_KW],
        STORED => &[STORED_KW],
        STORAGE => &[STORAGE_KW],
        COMPRESSION_METHOD => &[COMPRESSION_KW],
        REFERENCES_CONSTRAINT => &[REFERENCES_KW],
        FOREIGN_KEY_CONSTRAINT => &[FOREIGN_KW, KEY_KW, REFERENCES_KW],
        MATCH_FULL => &[MATCH_KW, FULL_KW],
        MATCH_SIMPLE => &[MATCH_KW, SIMPLE_KW],
        ON_DELETE_ACTION => &[ON_KW, DELETE_KW],
        ON_UPDATE_ACTION => &[ON_KW, UPDATE_KW],
        NO_ACTION => &[NO_KW, ACTION_KW],
        SET_NULL_COLUMNS => &[SET_KW, NULL_KW],
        SET_DEFAULT_COLUMNS => &[SET_KW, DEFAULT_KW],
        DEFERRABLE_CONSTRAINT_OPTION => &[DEFERRABLE_KW],
        NOT_DEFERRABLE_CONSTRAINT_OPTION => &[NOT_KW, DEFERRABLE_KW],
        INITIALLY_DEFERRED_CONSTRAINT_OPTION => &[INITIALLY_KW, DEFERRED_KW],
        INITIALLY_IMMEDIATE_CONSTRAINT_OPTION => &[INITIALLY_KW, IMMEDIATE_KW],
        NOT_VALID => &[NOT_KW, VALID_KW],
        NO_INHERIT => &[NO_KW, INHERIT_KW],
        EXCLUDE_CONSTRAINT => &[EXCLUDE_KW],
        CONSTRAINT_INDEX_METHOD | USING_METHOD => &[USING_KW],
        CONSTRAINT_EXCLUSION => &[WITH_KW],
        WHERE_CONDITION_CLAUSE => &[WHERE_KW],
        _ => return None,
    })
}

fn types_and_sequences(kind: SyntaxKind) -> Option<&'static [SyntaxKind]> {
    Some(match kind {
        ENUM_TYPE => &[AS_KW, ENUM_KW],
        VARIANT_LIST | VARIANT | COMPOSITE_FIELD_LIST | COMPOSITE_FIELD_DEF => &[],
        COMPOSITE_TYPE => &[AS_KW],
        OPTION_AS_TYPE => &[AS_KW],
        OPTION_INCREMENT => &[INCREMENT_KW, BY_KW],
        OPTION_MIN_VALUE => &[MINVALUE_KW],
        OPTION_NO_MIN_VALUE => &[NO_KW, MINVALUE_KW],
        OPTION_MAX_VALUE => &[MAXVALUE_KW],
        OPTION_NO_MAX_VALUE => &[NO_KW, MAXVALUE_KW],
        OPTION_START => &[START_KW, WITH_KW],
        OPTION_RESTART | RESTART => &[RESTART_KW, WITH_KW],
        OPTION_CACHE => &[CACHE_KW],
        OPTION_CYCLE => &[CYCLE_KW],
        OPTION_NO_CYCLE => &[NO_KW, CYCLE_KW],
        OPTION_OWNED_BY => &[OWNED_KW, BY_KW],
        OWNED_BY_NONE => &[NONE_KW],
        ARRAY_TYPE => &[ARRAY_KW],
        ARRAY_BOUND => &[L_BRACK, R_BRACK],
        DOUBLE_TYPE => &[DOUBLE_KW, PRECISION_KW],
        VARCHAR_TYPE => &[VARCHAR_KW, CHARACTER_KW, CHAR_KW, VARYING_KW],
        CHARACTER_TYPE => &[CHARACTER_KW, CHAR_KW],
        BIT_TYPE | BIT_VARYING_TYPE => &[BIT_KW, VARYING_KW],
        TIME_TYPE => &[TIME_KW],
        TIMESTAMP_TYPE => &[TIMESTAMP_KW],
        WITH_TIMEZONE => &[WITH_KW, TIME_KW, ZONE_KW],
        WITHOUT_TIMEZONE => &[WITHOUT_KW, TIME_KW, ZONE_KW],
        INTERVAL_TYPE => &[INTERVAL_KW],
        INTERVAL_YEAR | INTERVAL_MONTH | INTERVAL_DAY | INTERVAL_HOUR | INTERVAL_MINUTE | INTERVAL_SECOND => {
            &[YEAR_KW, MONTH_KW, DAY_KW, HOUR_KW, MINUTE_KW, SECOND_KW, TO_KW]
        }
        _ => return None,
    })
}

fn alterations(kind: SyntaxKind) -> Option<&'static [SyntaxKind]> {
    Some(match kind {
        ADD_COLUMN => &[ADD_KW, COLUMN_KW],
        DROP_COLUMN => &[DROP_KW, COLUMN_KW],
        ALTER_COLUMN | ALTER_VIEW_COLUMN => &[ALTER_KW, COLUMN_KW],
        SET_TYPE => &[SET_KW, DATA_KW, TYPE_KW],
        USING_EXPR => &[USING_KW],
        SET_DEFAULT => &[SET_KW, DEFAULT_KW],
        DROP_DEFAULT => &[DROP_KW, DEFAULT_KW],
        SET_NOT_NULL => &[SET_KW, NOT_KW, NULL_KW],
        DROP_NOT_NULL => &[DROP_KW, NOT_KW, NULL_KW],
        ADD_GENERATED => &[ADD_KW, GENERATED_KW, AS_KW, IDENTITY_KW],
        DROP_IDENTITY => &[DROP_KW, IDENTITY_KW],
        DROP_EXPRESSION => &[DROP_KW, EXPRESSION_KW],
        SET_EXPRESSION => &[SET_KW, EXPRESSION_KW, AS_KW],
        SET_GENERATED_OPTIONS => &[],
        SET_GENERATED => &[SET_KW, GENERATED_KW],
        SET_STATISTICS => &[SET_KW, STATISTICS_KW],
        SET_STORAGE => &[SET_KW, STORAGE_KW],
        SET_COMPRESSION => &[SET_KW, COMPRESSION_KW],
        SET_LOGGED => &[SET_KW, LOGGED_KW],
        SET_UNLOGGED => &[SET_KW, UNLOGGED_KW],
        SET_OPTIONS => &[SET_KW],
        RESET_OPTIONS => &[RESET_KW],
        ADD_CONSTRAINT => &[ADD_KW],
        DROP_CONSTRAINT => &[DROP_KW, CONSTRAINT_KW],
        VALIDATE_CONSTRAINT => &[VALIDATE_KW, CONSTRAINT_KW],
        ALTER_CONSTRAINT => &[ALTER_KW, CONSTRAINT_KW],
        INHERIT_TABLE => &[INHERIT_KW],
        NO_INHERIT_TABLE => &[NO_KW, INHERIT_KW],
        ATTACH_PARTITION => &[ATTACH_KW, PARTITION_KW],
        DETACH_PARTITION => &[DETACH_KW, PARTITION_KW],
        RENAME_COLUMN => &[RENAME_KW, COLUMN_KW, TO_KW],
        RENAME_CONSTRAINT => &[RENAME_KW, CONSTRAINT_KW, TO_KW],
        TABLE_RENAME_TO | INDEX_RENAME_TO | SEQUENCE_RENAME_TO | VIEW_RENAME_TO | TYPE_RENAME_TO | DOMAIN_RENAME_TO => {
            &[RENAME_KW, TO_KW]
        }
        ADD_VALUE => &[ADD_KW, VALUE_KW],
        BEFORE_VALUE => &[BEFORE_KW],
        AFTER_VALUE => &[AFTER_KW],
        RENAME_VALUE => &[RENAME_KW, VALUE_KW, TO_KW],
        ALTER_TYPE_ATTRIBUTE_ACTION_LIST => &[],
        ADD_ATTRIBUTE => &[ADD_KW, ATTRIBUTE_KW],
        DROP_ATTRIBUTE => &[DROP_KW, ATTRIBUTE_KW],
        ALTER_ATTRIBUTE => &[ALTER_KW, ATTRIBUTE_KW, SET_KW, DATA_KW, TYPE_KW],
        RENAME_ATTRIBUTE => &[RENAME_KW, ATTRIBUTE_KW, TO_KW],
        _ => return None,
    })
}
