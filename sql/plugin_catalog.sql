-- What a plugin's schema and roles may be made of, as the catalog has it. Gives a line for each thing that is something
-- else: nothing that is not known passes. It shares nothing with the reader of schema.sql (host/crates/schema_sql/src) and
-- finds as well what somebody made by hand. Run with `search_path = pg_catalog, pg_temp`; parameters are the schema's
-- name and the two roles, as quoted identifiers.

WITH own AS (
  SELECT $1::text::regnamespace::oid AS schema, $2::text::regrole::oid AS owner, $3::text::regrole::oid AS runtime,
         'public.master_cards'::regclass::oid AS cards,
         -- What initdb made; everything later has a higher number.
         16384::oid AS first_foreign
),

-- Everything that belongs to the schema, and what hangs on its tables, views and types.
relations AS (SELECT c.* FROM pg_class c, own WHERE c.relnamespace = own.schema),
types AS (SELECT t.* FROM pg_type t, own WHERE t.typnamespace = own.schema),
constraints AS (
  SELECT k.* FROM pg_constraint k, own
  WHERE k.connamespace = own.schema OR k.conrelid IN (SELECT oid FROM relations)
),
-- Range types bring their constructors, which belong to the superuser and are written in C.
constructors AS (
  SELECT p.oid, p.prosrc FROM pg_proc p, own
  WHERE p.pronamespace = own.schema AND p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'internal')
  AND NOT p.prosecdef
  AND p.prosrc IN ('range_constructor2', 'range_constructor3', 'multirange_constructor0', 'multirange_constructor1',
                   'multirange_constructor2')
  AND EXISTS (SELECT FROM types t WHERE t.oid = p.prorettype AND t.typtype IN ('r', 'm'))
),
members AS (
  SELECT 'pg_class'::regclass AS classid, oid AS objid FROM relations
  UNION ALL SELECT 'pg_type'::regclass, oid FROM types
  UNION ALL SELECT 'pg_constraint'::regclass, oid FROM constraints
  UNION ALL SELECT 'pg_proc'::regclass, oid FROM constructors
  UNION ALL SELECT 'pg_attrdef'::regclass, d.oid FROM pg_attrdef d JOIN relations r ON r.oid = d.adrelid
  UNION ALL SELECT 'pg_rewrite'::regclass, w.oid FROM pg_rewrite w JOIN relations r ON r.oid = w.ev_class
  UNION ALL SELECT 'pg_trigger'::regclass, t.oid FROM pg_trigger t JOIN relations r ON r.oid = t.tgrelid
),

-- Expressions, as PostgreSQL keeps them: trees in words. Names and values in them have their blanks and brackets escaped.
expressions AS (
  SELECT 'a default or generated value of ' || d.adrelid::regclass::text AS what, d.adbin::text AS tree
  FROM pg_attrdef d JOIN relations r ON r.oid = d.adrelid
  UNION ALL SELECT 'constraint ' || k.conname::text, k.conbin::text FROM constraints k WHERE k.conbin IS NOT NULL
  UNION ALL
  SELECT 'index ' || i.indexrelid::regclass::text, coalesce(i.indexprs::text, '') || coalesce(i.indpred::text, '')
  FROM pg_index i JOIN relations r ON r.oid = i.indexrelid
  UNION ALL
  SELECT 'view ' || w.ev_class::regclass::text, w.ev_action::text || coalesce(w.ev_qual::text, '')
  FROM pg_rewrite w JOIN relations r ON r.oid = w.ev_class
  UNION ALL SELECT 'partition ' || r.oid::regclass::text, r.relpartbound::text FROM relations r WHERE r.relpartbound IS NOT NULL
  UNION ALL
  SELECT 'the key of ' || p.partrelid::regclass::text, p.partexprs::text
  FROM pg_partitioned_table p JOIN relations r ON r.oid = p.partrelid WHERE p.partexprs IS NOT NULL
  UNION ALL SELECT 'type ' || t.oid::regtype::text, t.typdefaultbin::text FROM types t WHERE t.typdefaultbin IS NOT NULL
),
tags AS (
  SELECT DISTINCT e.what, m[1] AS tag FROM expressions e, regexp_matches(e.tree, '\{([A-Z0-9_]+)', 'g') m
),
calls AS (
  SELECT DISTINCT e.what, m[1]::oid AS function
  FROM expressions e, regexp_matches(e.tree, ' :(?:funcid|aggfnoid|winfnoid|opfuncid|hashfuncid|negfuncid) ([0-9]+)', 'g') m
  WHERE m[1] <> '0'
  UNION
  SELECT e.what, coalesce(o.oprcode::oid, m[1]::oid)
  FROM expressions e, regexp_matches(e.tree, ' :opno ([0-9]+)', 'g') m LEFT JOIN pg_operator o ON o.oid = m[1]::oid
),
seen_relations AS (
  SELECT DISTINCT e.what, m[1]::oid AS relation FROM expressions e, regexp_matches(e.tree, ' :relid ([0-9]+)', 'g') m
  WHERE m[1] <> '0'
),

-- Kinds of things, each with the place in the catalog of what would have to go (`cardinal database drop-object`). A class that
-- is not named here is refused, whatever it will be.
objects(what, name, class, object) AS (
  SELECT 'something that is no table, column, index, sequence, view or type', pg_describe_object(d.classid, d.objid, 0),
    d.classid::oid, d.objid
  FROM pg_depend d, own
  WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = own.schema
  AND NOT (d.classid IN ('pg_class'::regclass, 'pg_type'::regclass))
  AND NOT (d.classid = 'pg_proc'::regclass AND d.objid IN (SELECT oid FROM constructors))
  -- The defaults that older versions of the host set; their content is looked at below.
  AND d.classid <> 'pg_default_acl'::regclass
  UNION ALL
  SELECT 'a function', p.oid::regprocedure::text, 'pg_proc'::regclass::oid, p.oid FROM pg_proc p, own
  WHERE (p.pronamespace = own.schema OR p.proowner IN (own.owner, own.runtime)) AND p.oid NOT IN (SELECT oid FROM constructors)
  UNION ALL
  SELECT 'something of another kind', r.oid::regclass::text, 'pg_class'::regclass::oid, r.oid
  FROM relations r WHERE r.relkind NOT IN ('r', 'p', 'i', 'I', 'S', 'v', 'c')
  UNION ALL
  SELECT 'a type of another kind', t.oid::regtype::text, 'pg_type'::regclass::oid, t.oid FROM types t, own
  WHERE NOT (t.typtype IN ('c', 'e', 'd', 'r', 'm') OR (t.typtype = 'b' AND t.typcategory = 'A' AND t.typelem <> 0
             AND t.typinput = 'array_in'::regproc))
  OR (t.typtype = 'r' AND EXISTS (SELECT FROM pg_range g WHERE g.rngtypid = t.oid
      AND (g.rngcanonical <> 0 OR g.rngsubdiff >= own.first_foreign OR g.rngsubopc >= own.first_foreign)))
  UNION ALL
  SELECT 'a cast', c.castsource::regtype::text || ' as ' || c.casttarget::regtype::text, 'pg_cast'::regclass::oid, c.oid
  FROM pg_cast c
  WHERE (c.castsource IN (SELECT oid FROM types) OR c.casttarget IN (SELECT oid FROM types)
         OR c.castfunc IN (SELECT p.oid FROM pg_proc p, own WHERE p.pronamespace = own.schema OR p.proowner = own.owner))
  -- From a range to its multirange, which CREATE TYPE makes.
  AND NOT (c.castcontext = 'e' AND c.castfunc IN (SELECT oid FROM constructors WHERE prosrc = 'multirange_constructor1'))
  UNION ALL
  SELECT 'a trigger', t.tgname::text || ' on ' || t.tgrelid::regclass::text, 'pg_trigger'::regclass::oid, t.oid
  FROM pg_trigger t JOIN relations r ON r.oid = t.tgrelid, own
  WHERE NOT t.tgisinternal OR t.tgfoid >= own.first_foreign
  UNION ALL
  SELECT 'a rule', w.rulename::text || ' on ' || w.ev_class::regclass::text, 'pg_rewrite'::regclass::oid, w.oid
  FROM pg_rewrite w JOIN relations r ON r.oid = w.ev_class
  WHERE NOT (w.rulename = '_RETURN' AND r.relkind = 'v')
  UNION ALL
  SELECT 'a policy', p.polname::text || ' on ' || p.polrelid::regclass::text, 'pg_policy'::regclass::oid, p.oid
  FROM pg_policy p JOIN relations r ON r.oid = p.polrelid
  UNION ALL
  SELECT 'an operator class of somebody''s own', i.indexrelid::regclass::text, 'pg_class'::regclass::oid, i.indexrelid
  FROM pg_index i JOIN relations r ON r.oid = i.indexrelid, own
  WHERE EXISTS (SELECT FROM unnest(i.indclass::oid[]) c WHERE c >= own.first_foreign)

  -- Keys. The check of one runs as the owner of the table that is pointed to.
  UNION ALL
  SELECT 'a foreign key to something else', k.conname::text || ' on ' || k.conrelid::regclass::text, 'pg_constraint'::regclass::oid, k.oid
  FROM constraints k, own
  WHERE k.contype = 'f' AND k.confrelid <> own.cards AND k.confrelid NOT IN (SELECT oid FROM relations)
  UNION ALL
  SELECT 'a key to the cards that is not one uuid to their id', k.conname::text || ' on ' || k.conrelid::regclass::text,
    'pg_constraint'::regclass::oid, k.oid
  FROM constraints k, own
  WHERE k.contype = 'f' AND k.confrelid = own.cards AND NOT (
    cardinality(k.conkey) = 1
    AND k.confkey = ARRAY[(SELECT attnum FROM pg_attribute WHERE attrelid = own.cards AND attname = 'id')]
    AND (SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = k.conrelid AND a.attnum = k.conkey[1]) = 'uuid'::regtype
    AND (SELECT bool_and(o = '=(uuid,uuid)'::regoperator::oid)
         FROM unnest(k.conpfeqop || k.conppeqop || k.conffeqop) o))
  UNION ALL
  SELECT 'an operator of somebody''s own', k.conname::text, 'pg_constraint'::regclass::oid, k.oid FROM constraints k, own
  WHERE EXISTS (SELECT FROM unnest(k.conpfeqop || k.conppeqop || k.conffeqop || k.conexclop) o WHERE o >= own.first_foreign)
),

-- What is wrong about things that may be there as such, and rights.
found(what, name) AS (
  SELECT 'a table with row security', r.oid::regclass::text FROM relations r WHERE r.relrowsecurity OR r.relforcerowsecurity
  UNION ALL
  SELECT 'a table or index of somebody''s own access method', r.oid::regclass::text FROM relations r, own
  WHERE r.relam >= own.first_foreign
  -- PostgreSQL computes the constants of such an expression whenever it opens the table, in anybody's session.
  UNION ALL
  SELECT 'a partition key that is no column', p.partrelid::regclass::text
  FROM pg_partitioned_table p JOIN relations r ON r.oid = p.partrelid WHERE p.partexprs IS NOT NULL
  UNION ALL
  SELECT 'an event trigger', e.evtname::text FROM pg_event_trigger e, own WHERE e.evtowner IN (own.owner, own.runtime)

  -- Keys. The check of one runs as the owner of the table that is pointed to.
  UNION ALL
  SELECT 'a constraint of another kind', k.conname::text FROM constraints k WHERE k.contype NOT IN ('c', 'f', 'n', 'p', 'u', 'x')
  UNION ALL
  SELECT 'a key of somebody else''s to a table of the plugin', k.conrelid::regclass::text FROM pg_constraint k
  WHERE k.confrelid IN (SELECT oid FROM relations) AND k.conrelid NOT IN (SELECT oid FROM relations)
  UNION ALL
  SELECT 'a table that inherits across schemas', i.inhrelid::regclass::text FROM pg_inherits i
  WHERE (i.inhrelid IN (SELECT oid FROM relations)) <> (i.inhparent IN (SELECT oid FROM relations))

  -- Expressions: no node, function or table but known ones.
  UNION ALL
  SELECT 'an expression with ' || lower(t.tag), t.what FROM tags t WHERE t.tag <> ALL (string_to_array({{node_tags}}, ' '))
  UNION ALL
  SELECT 'a call of ' || c.function::regprocedure::text, c.what FROM calls c LEFT JOIN pg_proc p ON p.oid = c.function, own
  WHERE p.oid IS NULL OR (c.function NOT IN (SELECT oid FROM constructors) AND NOT (
    p.oid < own.first_foreign AND p.pronamespace = 'pg_catalog'::regnamespace AND (
      p.provolatile = 'i' OR p.proname = ANY (string_to_array({{changing_functions}}, ' '))
      OR p.oid IN (SELECT oprcode::oid FROM pg_operator WHERE oid < own.first_foreign)
      OR p.oid IN (SELECT castfunc FROM pg_cast WHERE oid < own.first_foreign))))
  UNION ALL
  SELECT 'a look at ' || s.relation::regclass::text, s.what FROM seen_relations s WHERE s.relation NOT IN (SELECT oid FROM relations)
  UNION ALL
  SELECT 'a dependence on ' || pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid), pg_describe_object(d.classid, d.objid, d.objsubid)
  FROM pg_depend d JOIN members m ON m.classid = d.classid AND m.objid = d.objid, own
  WHERE d.refobjid >= own.first_foreign
  AND NOT (d.refclassid = 'pg_namespace'::regclass AND d.refobjid = own.schema)
  AND NOT EXISTS (SELECT FROM members r WHERE r.classid = d.refclassid AND r.objid = d.refobjid)
  -- A foreign key on the cards and on the index of their ids.
  AND NOT (d.classid = 'pg_constraint'::regclass AND d.refclassid = 'pg_class'::regclass
           AND (d.refobjid = own.cards OR d.refobjid IN (SELECT indexrelid FROM pg_index WHERE indrelid = own.cards)))

  -- Owners and rights.
  UNION ALL
  SELECT 'something that is owned outside of the schema', i.type || ' ' || i.identity
  FROM pg_shdepend d, own, LATERAL pg_identify_object(d.classid, d.objid, d.objsubid) i
  WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid IN (own.owner, own.runtime) AND d.deptype = 'o'
  AND d.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
  AND d.classid <> 'pg_default_acl'::regclass AND i.schema IS DISTINCT FROM $1::text
  UNION ALL
  SELECT 'something of somebody else''s', r.oid::regclass::text FROM relations r, own WHERE r.relowner <> own.owner
  UNION ALL
  SELECT 'something of somebody else''s', t.oid::regtype::text FROM types t, own WHERE t.typowner <> own.owner
  UNION ALL
  SELECT g.privilege_type || ' to ' || CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(g.grantee)::text END, g.what
  FROM (
    SELECT r.oid::regclass::text AS what, r.relowner AS owner, a.*, true AS is_data FROM relations r, aclexplode(r.relacl) a
    UNION ALL
    SELECT r.oid::regclass::text || '.' || t.attname, r.relowner, a.*, true
    FROM relations r JOIN pg_attribute t ON t.attrelid = r.oid, aclexplode(t.attacl) a
    UNION ALL
    SELECT p.oid::regprocedure::text, p.proowner, a.*, false FROM pg_proc p, own, aclexplode(p.proacl) a WHERE p.pronamespace = own.schema
    UNION ALL
    SELECT 'type ' || t.oid::regtype::text, t.typowner, a.*, false FROM types t, aclexplode(t.typacl) a
    UNION ALL
    SELECT 'default privileges', d.defaclrole, a.*, d.defaclobjtype IN ('r', 'S')
    FROM pg_default_acl d, own, aclexplode(d.defaclacl) a WHERE d.defaclrole IN (own.owner, own.runtime)
  ) g, own
  WHERE g.grantee <> g.owner
  -- Types are everybody's by PostgreSQL's default; nobody else can reach the schema.
  AND NOT (NOT g.is_data AND g.grantee IN (0, own.runtime) AND NOT g.is_grantable)
  AND NOT (g.is_data AND g.grantee = own.runtime AND NOT g.is_grantable
           AND g.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'USAGE'))
  UNION ALL
  SELECT a.privilege_type || ' on the schema to ' || CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END,
         $1::text
  FROM pg_namespace n, own, aclexplode(n.nspacl) a
  WHERE n.oid = own.schema AND a.grantee <> n.nspowner
  AND NOT (NOT a.is_grantable AND (a.grantee = own.owner OR (a.grantee = own.runtime AND a.privilege_type = 'USAGE')))
  UNION ALL
  SELECT 'a setting of the schema role', s.setconfig::text FROM pg_db_role_setting s, own WHERE s.setrole = own.owner
  UNION ALL
  -- From PostgreSQL 16 on who made a role is a member of it, and who made that one as well.
  SELECT 'a member of the plugin''s roles', pg_get_userbyid(m.member)::text FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member, own
  WHERE m.roleid IN (own.owner, own.runtime) AND NOT r.rolcreaterole AND NOT r.rolsuper
)
SELECT DISTINCT what, name, class, object
FROM (SELECT * FROM objects UNION ALL SELECT what, name, NULL::oid, NULL::oid FROM found) all_of_it
ORDER BY what, name LIMIT 20
