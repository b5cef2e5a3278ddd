-- What PostgreSQL computes of a plugin's when somebody removes a card, in that session: nothing may be there whose cost has no
-- bound, since some built-in functions take minutes for one value and cannot be interrupted. Gives a line for each such thing.
-- Run with `search_path = pg_catalog, pg_temp`; the parameter is the schema's name.

WITH RECURSIVE relations AS MATERIALIZED (
  SELECT c.oid, c.relkind, c.relispartition FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1
),
keys AS MATERIALIZED (
  SELECT k.conrelid, k.confrelid, k.confdeltype, k.confupdtype FROM pg_constraint k JOIN relations r ON r.oid = k.conrelid
  WHERE k.contype = 'f'
),
-- Tables whose rows a key's action writes. ON UPDATE does when such an action writes the table that is pointed to; ids of
-- cards never change.
written(relation) AS (
  SELECT conrelid FROM keys WHERE confdeltype IN ('n', 'd')
  UNION
  SELECT k.conrelid FROM keys k JOIN written w ON w.relation = k.confrelid WHERE k.confupdtype IN ('c', 'n', 'd')
),
sets_default AS (
  SELECT conrelid FROM keys WHERE confdeltype = 'd' OR confupdtype = 'd'
),
-- A key's column can be of a domain, which may be one of a domain.
domains(relation, attribute, type) AS (
  SELECT w.relation, a.attnum, a.atttypid FROM written w JOIN pg_attribute a ON a.attrelid = w.relation JOIN pg_type t ON t.oid = a.atttypid
  WHERE a.attnum > 0 AND NOT a.attisdropped AND t.typtype = 'd'
  UNION
  SELECT d.relation, d.attribute, t.typbasetype FROM domains d JOIN pg_type t ON t.oid = d.type JOIN pg_type b ON b.oid = t.typbasetype
  WHERE b.typtype = 'd'
),
computed(relation, what, tree) AS MATERIALIZED (
  SELECT k.conrelid, 'constraint ' || k.conname::text || ' on ' || k.conrelid::regclass::text, k.conbin::text
  FROM pg_constraint k JOIN written w ON w.relation = k.conrelid WHERE k.contype = 'c'
  UNION ALL
  SELECT d.relation, 'constraint ' || k.conname::text || ' of domain ' || d.type::regtype::text || ' in ' || d.relation::regclass::text, k.conbin::text
  FROM domains d JOIN pg_constraint k ON k.contypid = d.type WHERE k.conbin IS NOT NULL
  UNION ALL
  SELECT e.adrelid, 'column ' || a.attname::text || ' of ' || a.attrelid::regclass::text, e.adbin::text
  FROM pg_attrdef e JOIN pg_attribute a ON a.attrelid = e.adrelid AND a.attnum = e.adnum JOIN written w ON w.relation = e.adrelid
  WHERE a.attgenerated <> '' OR e.adrelid IN (SELECT conrelid FROM sets_default)
  UNION ALL
  SELECT i.indrelid, 'index ' || i.indexrelid::regclass::text, coalesce(i.indexprs::text, '') || coalesce(i.indpred::text, '')
  FROM pg_index i JOIN written w ON w.relation = i.indrelid WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
  UNION ALL
  SELECT p.partrelid, 'the key of ' || p.partrelid::regclass::text, p.partexprs::text
  FROM pg_partitioned_table p JOIN written w ON w.relation = p.partrelid WHERE p.partexprs IS NOT NULL
),
calls AS (
  SELECT c.what, m[1]::oid AS function
  FROM computed c, regexp_matches(c.tree, ' :(?:funcid|opfuncid|hashfuncid|negfuncid) ([0-9]+)', 'g') m WHERE m[1] <> '0'
  UNION
  SELECT c.what, o.oprcode::oid FROM computed c, regexp_matches(c.tree, ' :opno ([0-9]+)', 'g') m JOIN pg_operator o ON o.oid = m[1]::oid
),

-- Whoever plans a statement on a table, a key's action included, computes what is constant in its indexes, and in the checks of
-- partitions. What follows turns constants, and what costs nothing around them, into a letter, level by level. A node that has no
-- other node in it then has nothing but constants.
planned(what, tree) AS (
  SELECT 'index ' || i.indexrelid::regclass::text, coalesce(i.indexprs::text, '') || coalesce(i.indpred::text, '')
  FROM pg_index i JOIN relations r ON r.oid = i.indrelid WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
  UNION ALL
  SELECT 'constraint ' || k.conname::text || ' on ' || k.conrelid::regclass::text, k.conbin::text
  FROM pg_constraint k JOIN relations r ON r.oid = k.conrelid WHERE k.contype = 'c' AND (r.relispartition OR r.relkind = 'p')
),
-- C is a constant, or what PostgreSQL may make one of (of `coalesce('a', v)` it makes 'a', of a CASE one of its results), and V
-- anything else. What computes something from constants alone, or is too deep to be looked through, stays as a node; but for
-- comparisons and functions that read their values once.
quick(operators, functions) AS MATERIALIZED (
  SELECT (SELECT string_agg(oid::text, '|') FROM pg_operator WHERE oprname IN ('=', '<>', '<', '<=', '>', '>=') AND oid < 16384),
         (SELECT string_agg(oid::oid::text, '|') FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND oid < 16384
          AND proname IN ('lower', 'upper', 'length', 'md5', 'abs', 'date_trunc', 'left', 'right'))
),
leaves(what, tree, level) AS (
  SELECT what, regexp_replace(regexp_replace(tree, '\{CONST [^{}]*\}', 'C', 'g'),
    '\{(?:VAR|CASETESTEXPR|COERCETODOMAINVALUE) [^{}]*\}', 'V', 'g'), 0
  FROM planned
  UNION ALL
  SELECT l.what, regexp_replace(regexp_replace(regexp_replace(l.tree,
    '\{(?:(?:OPEXPR|FUNCEXPR|DISTINCTEXPR|NULLIFEXPR|SCALARARRAYOPEXPR|MINMAX|MINMAXEXPR|ROWCOMPARE|ROWCOMPAREEXPR) [^{}]*' ||
      ':l?args \((?:[CV] )*V(?: [CV])*\)[^{}]*|FUNCEXPR [^{}]*:args <>[^{}]*|SUBSCRIPTINGREF [^{}]*:refexpr V [^{}]*)\}', 'V', 'g'),
    '\{(?:(?:RELABELTYPE|COLLATEEXPR|ARRAYEXPR|ARRAY|BOOLEXPR|NULLTEST|BOOLEANTEST|COALESCE|COALESCEEXPR|CASE|CASEEXPR|WHEN|CASEWHEN' ||
      '|COERCEVIAIO|ARRAYCOERCEEXPR|SUBSCRIPTINGREF|FIELDSELECT|ROW|ROWEXPR) [^{}]*[ (]C[ )][^{}]*' ||
      '|FUNCEXPR [^{}]*:funcformat [12] [^{}]*:args \([C ]+\)[^{}]*|FUNCEXPR :funcid (?:' || q.functions || ') [^{}]*' ||
      '|(?:OPEXPR|SCALARARRAYOPEXPR|DISTINCTEXPR|NULLIFEXPR) :opno (?:' || q.operators || ') [^{}]*)\}', 'C', 'g'),
    '\{(?:RELABELTYPE|COLLATEEXPR|ARRAYEXPR|ARRAY|BOOLEXPR|NULLTEST|BOOLEANTEST|COALESCE|COALESCEEXPR|CASE|CASEEXPR|WHEN|CASEWHEN' ||
      '|COERCEVIAIO|ARRAYCOERCEEXPR|FIELDSELECT|ROW|ROWEXPR) (?![^{}]*[ (]C[ )])[^{}]*\}', 'V', 'g'), l.level + 1
  FROM leaves l, quick q WHERE l.level < 64 AND l.tree ~ '\{'
),
constants AS (
  SELECT what FROM leaves WHERE level = 64
),
-- What reads its values once at most: comparisons, lengths, casts that PostgreSQL makes by itself, and everything between values
-- of a fixed length.
small AS MATERIALIZED (
  SELECT p.oid FROM pg_proc p
  WHERE p.oid < 16384 AND NOT p.proretset AND (
    p.oid IN (SELECT oprcode::oid FROM pg_operator WHERE oprname IN ('=', '<>', '<', '<=', '>', '>=') AND oid < 16384)
    OR p.oid IN (SELECT castfunc FROM pg_cast WHERE oid < 16384)
    OR p.pronamespace = 'pg_catalog'::regnamespace AND p.proname IN (
      'length', 'char_length', 'character_length', 'octet_length', 'bit_length', 'cardinality', 'array_length', 'jsonb_typeof',
      'num_nulls', 'num_nonnulls', 'isfinite', 'isempty')
    OR NOT EXISTS (SELECT FROM unnest(p.proargtypes::oid[] || p.prorettype) a JOIN pg_type t ON t.oid = a WHERE t.typlen < 0 OR t.typtype = 'p'))
),

-- Comparisons that read a long value only when it is as long as the other one.
equal(operators) AS MATERIALIZED (
  SELECT string_agg(o.oid::text, '|') FROM pg_operator o
  WHERE o.oid < 16384 AND o.oprname IN ('=', '<>') AND (
    o.oprcode IN ('texteq'::regproc, 'textne'::regproc, 'byteaeq'::regproc, 'byteane'::regproc)
    OR NOT EXISTS (SELECT FROM unnest(ARRAY[o.oprleft, o.oprright]) a JOIN pg_type t ON t.oid = a WHERE t.typlen < 0 OR t.typtype = 'p'))
),
-- Casts between values of a fixed length, such as those that PostgreSQL puts around the numbers in `n IN (1, 2)`.
casts(functions) AS MATERIALIZED (
  SELECT string_agg(DISTINCT k.castfunc::oid::text, '|') FROM pg_cast k JOIN pg_type s ON s.oid = k.castsource JOIN pg_type t ON t.oid = k.casttarget
  WHERE k.castfunc <> 0 AND k.oid < 16384 AND s.typlen > 0 AND t.typlen > 0 AND s.typtype = 'b' AND t.typtype = 'b'
),
-- The trees with a letter for each constant (C) and column (V), and without what is cheap however long the values are: such
-- comparisons of a column with constants, `IN ('a', 'b')` among them.
folded(relation, what, tree, level) AS (
  SELECT relation, what, regexp_replace(regexp_replace(tree, '\{CONST [^{}]*\}', 'C', 'g'),
    '\{(?:VAR|CASETESTEXPR|COERCETODOMAINVALUE) [^{}]*\}', 'V', 'g'), 0
  FROM computed
  UNION ALL
  SELECT f.relation, f.what, regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(f.tree,
    '\{FUNCEXPR :funcid (?:' || c.functions || ') [^{}]*:args \(([CV])\)[^{}]*\}', '\1', 'g'),
    '\{(?:RELABELTYPE|COLLATEEXPR) :arg ([CV]) [^{}]*\}', '\1', 'g'),
    '\{(?:ARRAY|ARRAYEXPR) [^{}]*:elements \((?:C ?)+\)[^{}]*\}', 'C', 'g'),
    '\{ARRAYCOERCEEXPR :arg C :elemexpr [CV] [^{}]*\}', 'C', 'g'),
    '\{(?:OPEXPR|SCALARARRAYOPEXPR) :opno (?:' || e.operators || ') [^{}]*:args \((?:V C|C V)\)[^{}]*\}', 'C', 'g'), f.level + 1
  FROM folded f, equal e, casts c WHERE f.level < 3
),
-- What is left of a table's operations on values of any length: each reads its values whole.
operations AS (
  SELECT f.relation, p.oid FROM folded f, regexp_matches(f.tree, ' :(?:funcid|opfuncid) ([0-9]+)', 'g') m JOIN pg_proc p ON p.oid = m[1]::oid
  WHERE f.level = 3 AND EXISTS (SELECT FROM unnest(p.proargtypes::oid[]) a JOIN pg_type t ON t.oid = a WHERE t.typlen < 0 OR t.typtype = 'p')
),

found(what, name) AS (
  SELECT 'an expression with ' || lower(t.tag) || ' in a table whose key sets a value', t.what
  FROM (SELECT DISTINCT f.what, m[1] AS tag FROM folded f, regexp_matches(f.tree, '\{([A-Z0-9_]+)', 'g') m WHERE f.level = 3) t
  WHERE t.tag <> ALL (ARRAY['OPEXPR', 'BOOLEXPR', 'NULLTEST', 'BOOLEANTEST', 'RELABELTYPE', 'FUNCEXPR', 'DISTINCTEXPR', 'NULLIFEXPR',
    'COALESCE', 'COALESCEEXPR', 'CASE', 'CASEEXPR', 'WHEN', 'CASEWHEN', 'COLLATEEXPR'])
  UNION ALL
  SELECT 'more than 16 operations on values of any length in a table whose key sets a value', o.relation::regclass::text
  FROM operations o GROUP BY o.relation HAVING count(*) > 16
  UNION ALL
  SELECT 'a call of ' || c.function::regprocedure::text || ' in a table whose key sets a value', c.what
  FROM calls c WHERE c.function NOT IN (SELECT oid FROM small)
  UNION ALL
  SELECT 'EXCLUDE in a table whose key sets a value', k.conname::text || ' on ' || k.conrelid::regclass::text
  FROM pg_constraint k JOIN written w ON w.relation = k.conrelid WHERE k.contype = 'x'
  UNION ALL
  -- Each removal of a card asks each of them, and plans that with all conditions of the indexes there are.
  SELECT 'more than 32 keys to master_cards', count(*)::text || ' keys'
  FROM pg_constraint k JOIN relations r ON r.oid = k.conrelid
  WHERE k.contype = 'f' AND k.conparentid = 0 AND k.confrelid = 'public.master_cards'::regclass HAVING count(*) > 32
  UNION ALL
  SELECT 'conditions of indexes that take long to read whenever somebody removes a card', count(*)::text || ' indexes'
  FROM pg_index i JOIN relations r ON r.oid = i.indrelid
  WHERE i.indpred IS NOT NULL HAVING sum(length(i.indpred::text)) > 1048576
  UNION ALL
  SELECT 'a value that is computed from constants whenever somebody removes a card', c.what FROM constants c
)
SELECT DISTINCT what, name FROM found ORDER BY what, name LIMIT 20
