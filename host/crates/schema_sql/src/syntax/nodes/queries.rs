//! The nodes of queries, of changes of rows, and of the expressions in either.

use squawk_syntax::SyntaxKind::{self, *};

pub(super) fn tokens(kind: SyntaxKind) -> Option<&'static [SyntaxKind]> {
    queries(kind)
        .or_else(|| windows(kind))
        .or_else(|| changes(kind))
        .or_else(|| expressions(kind))
        .or_else(|| calls(kind))
}

fn queries(kind: SyntaxKind) -> Option<&'static [SyntaxKind]> {
    Some(match kind {
        SELECT_CLAUSE => &[SELECT_KW],
        TARGET_LIST
        | ROW_LIST
        | ROW
        | GROUP_BY_LIST
        | GROUPING_EXPR
        | SORT_BY_LIST
        | SORT_BY
        | SET_COLUMN_LIST
        | COLUMN_TARGET_LIST
        | COLUMN_TARGET
        | CONFLICT_ON_INDEX
        | CONFLICT_INDEX_ITEM_LIST
        | CONFLICT_INDEX_ITEM
        | JOIN_EXPR
        | WINDOW_SPEC => &[],
        TARGET => &[STAR],
        AS_NAME | REQUIRED_AS_ALIAS | OPTIONAL_AS_ALIAS | FROM_ALIAS => &[AS_KW],
        FROM_CLAUSE => &[FROM_KW],
        USING_CLAUSE => &[USING_KW],
        RELATION_FROM_ITEM => &[ONLY_KW, STAR],
        PAREN_FROM_ITEM | FUNCTION_FROM_ITEM => &[LATERAL_KW],
        WITH_ORDINALITY => &[WITH_KW, ORDINALITY_KW],
        JOIN => &[NATURAL_KW],
        JOIN_INNER => &[INNER_KW, JOIN_KW],
        JOIN_LEFT => &[LEFT_KW, OUTER_KW, JOIN_KW],
        JOIN_RIGHT => &[RIGHT_KW, OUTER_KW, JOIN_KW],
        JOIN_FULL => &[FULL_KW, OUTER_KW, JOIN_KW],
        JOIN_CROSS => &[CROSS_KW, JOIN_KW],
        ON_CLAUSE => &[ON_KW],
        JOIN_USING_CLAUSE => &[USING_KW],
        WHERE_CLAUSE => &[WHERE_KW],
        GROUP_BY_CLAUSE => &[GROUP_KW, BY_KW],
        GROUPING_ROLLUP => &[ROLLUP_KW],
        GROUPING_CUBE => &[CUBE_KW],
        GROUPING_SETS => &[GROUPING_KW, SETS_KW],
        HAVING_CLAUSE => &[HAVING_KW],
        ORDER_BY_CLAUSE => &[ORDER_KW, BY_KW],
        LIMIT_CLAUSE => &[LIMIT_KW],
        OFFSET_CLAUSE => &[OFFSET_KW, ROW_KW, ROWS_KW],
        FETCH_CLAUSE => &[FETCH_KW, FIRST_KW, NEXT_KW, ROW_KW, ROWS_KW],
        FETCH_ONLY => &[ONLY_KW],
        WITH_TIES => &[WITH_KW, TIES_KW],
        ALL => &[ALL_KW],
        DISTINCT | DISTINCT_CLAUSE => &[DISTINCT_KW],
        DISTINCT_ON => &[DISTINCT_KW, ON_KW],
        UNION => &[UNION_KW],
        INTERSECT => &[INTERSECT_KW],
        EXCEPT => &[EXCEPT_KW],
        WITH_CLAUSE => &[WITH_KW, RECURSIVE_KW],
        WITH_TABLE => &[AS_KW],
        MATERIALIZED => &[MATERIALIZED_KW],
        NOT_MATERIALIZED => &[NOT_KW, MATERIALIZED_KW],
        _ => return None,
    })
}

fn windows(kind: SyntaxKind) -> Option<&'static [SyntaxKind]> {
    Some(match kind {
        WINDOW_CLAUSE => &[WINDOW_KW],
        WINDOW_DEF => &[AS_KW],
        PARTITION_BY_CLAUSE => &[PARTITION_KW, BY_KW],
        FRAME_CLAUSE => &[],
        FRAME_RANGE => &[RANGE_KW],
        FRAME_ROWS => &[ROWS_KW],
        FRAME_GROUPS => &[GROUPS_KW],
        FRAME_BETWEEN => &[BETWEEN_KW, AND_KW],
        FRAME_EXCLUDE => &[EXCLUDE_KW],
        GROUP => &[GROUP_KW],
        NO_OTHERS => &[NO_KW, OTHERS_KW],
        TIES => &[TIES_KW],
        UNBOUNDED_PRECEDING => &[UNBOUNDED_KW, PRECEDING_KW],
        UNBOUNDED_FOLLOWING => &[UNBOUNDED_KW, FOLLOWING_KW],
        EXPR_PRECEDING => &[PRECEDING_KW],
        EXPR_FOLLOWING => &[FOLLOWING_KW],
        CURRENT_ROW => &[CURRENT_KW, ROW_KW],
        _ => return None,
    })
}

fn changes(kind: SyntaxKind) -> Option<&'static [SyntaxKind]> {
    Some(match kind {
        DEFAULT_VALUES => &[DEFAULT_KW, VALUES_KW],
        OVERRIDING_SYSTEM_VALUE => &[OVERRIDING_KW, SYSTEM_KW, VALUE_KW],
        OVERRIDING_USER_VALUE => &[OVERRIDING_KW, USER_KW, VALUE_KW],
        ON_CONFLICT_CLAUSE => &[ON_KW, CONFLICT_KW],
        CONFLICT_ON_CONSTRAINT => &[ON_KW, CONSTRAINT_KW],
        CONFLICT_DO_NOTHING => &[DO_KW, NOTHING_KW],
        CONFLICT_DO_UPDATE_SET => &[DO_KW, UPDATE_KW],
        SET_CLAUSE => &[SET_KW],
        SET_SINGLE_COLUMN | SET_MULTIPLE_COLUMNS => &[EQ],
        SET_EXPR => &[DEFAULT_KW],
        SET_EXPR_LIST => &[ROW_KW],
        INDEX_ACCESSOR => &[L_BRACK, R_BRACK],
        FIELD_ACCESSOR => &[DOT],
        RETURNING_CLAUSE => &[RETURNING_KW],
        _ => return None,
    })
}

fn expressions(kind: SyntaxKind) -> Option<&'static [SyntaxKind]> {
    Some(match kind {
        PAREN_EXPR => &[],
        ARG_LIST => &[STAR],
        ARG => &[VARIADIC_KW],
        BIN_EXPR => &[
            PLUS,
            MINUS,
            STAR,
            SLASH,
            PERCENT,
            CARET,
            EQ,
            NEQ,
            NEQB,
            L_ANGLE,
            R_ANGLE,
            LTEQ,
            GTEQ,
            AND_KW,
            OR_KW,
            IS_KW,
            IN_KW,
            LIKE_KW,
            ILIKE_KW,
            ESCAPE_KW,
            OVERLAPS_KW,
        ],
        PREFIX_EXPR => &[PLUS, MINUS, NOT_KW],
        POSTFIX_EXPR => &[ISNULL_KW, NOTNULL_KW],
        BETWEEN_EXPR => &[NOT_KW, BETWEEN_KW, AND_KW],
        SYMMETRIC => &[SYMMETRIC_KW],
        IS_NOT => &[IS_KW, NOT_KW],
        IS_DISTINCT_FROM => &[IS_KW, DISTINCT_KW, FROM_KW],
        IS_NOT_DISTINCT_FROM => &[IS_KW, NOT_KW, DISTINCT_KW, FROM_KW],
        NOT_IN => &[NOT_KW, IN_KW],
        NOT_LIKE => &[NOT_KW, LIKE_KW],
        NOT_ILIKE => &[NOT_KW, ILIKE_KW],
        SIMILAR_TO => &[SIMILAR_KW, TO_KW],
        NOT_SIMILAR_TO => &[NOT_KW, SIMILAR_KW, TO_KW],
        AT_TIME_ZONE => &[AT_KW, TIME_KW, ZONE_KW],
        COLLATE => &[COLLATE_KW],
        CAST_EXPR => &[CAST_KW, AS_KW],
        FIELD_EXPR => &[DOT, STAR],
        INDEX_EXPR => &[L_BRACK, R_BRACK],
        SLICE_EXPR => &[L_BRACK, R_BRACK, COLON],
        ARRAY_EXPR => &[ARRAY_KW, L_BRACK, R_BRACK],
        TUPLE_EXPR => &[ROW_KW],
        CASE_EXPR => &[CASE_KW, END_KW],
        WHEN_CLAUSE_LIST => &[],
        WHEN_CLAUSE => &[WHEN_KW, THEN_KW],
        ELSE_CLAUSE => &[ELSE_KW],
        ANY_FN => &[ANY_KW],
        ALL_FN => &[ALL_KW],
        SOME_FN => &[SOME_KW],
        EXISTS_FN => &[EXISTS_KW],
        OP => &[PLUS, MINUS, STAR, SLASH, PERCENT, CARET, EQ, NEQ, NEQB, L_ANGLE, R_ANGLE, LTEQ, GTEQ],
        _ => return None,
    })
}

fn calls(kind: SyntaxKind) -> Option<&'static [SyntaxKind]> {
    Some(match kind {
        EXTRACT_FIELD_LITERAL => &[],
        EXTRACT_FN => &[EXTRACT_KW, FROM_KW],
        SUBSTRING_FN => &[SUBSTRING_KW],
        SUBSTRING_FROM_FOR | SUBSTRING_FOR_FROM => &[FROM_KW, FOR_KW],
        SUBSTRING_SIMILAR_ESCAPE => &[SIMILAR_KW, ESCAPE_KW],
        SUBSTRING_EXPRS | OVERLAY_EXPRS | TRIM_EXPRS => &[],
        TRIM_FN => &[TRIM_KW],
        TRIM_BOTH => &[BOTH_KW],
        TRIM_LEADING => &[LEADING_KW],
        TRIM_TRAILING => &[TRAILING_KW],
        TRIM_FROM | TRIM_EXPR_FROM => &[FROM_KW],
        POSITION_FN => &[POSITION_KW, IN_KW],
        OVERLAY_FN => &[OVERLAY_KW],
        OVERLAY_PLACING => &[PLACING_KW, FROM_KW, FOR_KW],
        FILTER_CLAUSE => &[FILTER_KW, WHERE_KW],
        OVER_CLAUSE => &[OVER_KW],
        OVER_WINDOW_SPEC => &[],
        WITHIN_CLAUSE => &[WITHIN_KW, GROUP_KW],
        _ => return None,
    })
}
