-- The statement that drops one object of the catalog, by its class and number; none where there is no such object, or none
-- that `cardinal database drop-object` drops. Run with `search_path = pg_catalog, pg_temp`. It names everything with its
-- schema, and ends where RESTRICT or CASCADE would follow.
SELECT CASE
  WHEN i.type IN ('function', 'procedure', 'aggregate') THEN 'DROP ROUTINE ' || i.identity
  WHEN i.type = 'table constraint' THEN
    (SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', t.identity, k.conname)
     FROM pg_constraint k, LATERAL pg_identify_object('pg_class'::regclass, k.conrelid, 0) t WHERE k.oid = $2)
  WHEN i.type IN ('materialized view', 'foreign table', 'index', 'type', 'trigger', 'rule', 'policy', 'cast', 'operator',
                  'operator class', 'operator family', 'collation', 'conversion', 'text search configuration',
                  'text search dictionary', 'text search parser', 'text search template') THEN
    format('DROP %s %s', upper(i.type), i.identity)
  WHEN i.type = 'statistics object' THEN 'DROP STATISTICS ' || i.identity
END
FROM pg_identify_object($1, $2, 0) i
