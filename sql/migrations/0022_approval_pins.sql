-- What a question was about beyond its arguments: the version of a card, or the cards that a filter picked. A question
-- about something else by now is void.

ALTER TABLE public.mcp_approvals
  ADD COLUMN pin text CHECK (char_length(pin) BETWEEN 1 AND 100);
