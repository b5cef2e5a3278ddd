-- A card is at most 8 MiB, whichever way it is written. What counts is its text as readers get it: a number like 1e308
-- takes 16 bytes in jsonb and 309 as text. Below 256 KiB of jsonb the text cannot reach the limit, so the trigger does
-- not run for the cards that there usually are. A card from before that is larger may stay as it is or shrink.
CREATE FUNCTION public.master_cards_bound_size() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $bound$
DECLARE
  most CONSTANT bigint := 8388608;
  size bigint := octet_length(NEW.attributes::text) + octet_length(NEW.title) + octet_length(NEW.sku);
BEGIN
  IF size <= most THEN
    RETURN NEW;
  END IF;
  IF TG_OP = 'UPDATE' THEN
    IF size <= octet_length(OLD.attributes::text) + octet_length(OLD.title) + octet_length(OLD.sku) THEN
      RETURN NEW;
    END IF;
  END IF;
  RAISE EXCEPTION 'the card would have % bytes', size USING ERRCODE = 'CRD01', DETAIL = size::text;
END
$bound$;
REVOKE ALL ON FUNCTION public.master_cards_bound_size() FROM PUBLIC;

CREATE TRIGGER master_cards_bound_size BEFORE INSERT OR UPDATE OF attributes, title, sku ON public.master_cards
FOR EACH ROW WHEN (pg_column_size(NEW.attributes) > 262144) EXECUTE FUNCTION public.master_cards_bound_size();
