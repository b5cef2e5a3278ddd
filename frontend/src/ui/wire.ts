/** Makes label, hint and error belong to a control. Called by an attachment, which runs again when one of these changes. */
export function wire(control: Element, { id, describedBy, invalid }: { id: string; describedBy: string | undefined; invalid: boolean }): void {
  control.id = id;
  set(control, 'aria-describedby', describedBy);
  set(control, 'aria-invalid', invalid ? 'true' : undefined);
}

function set(control: Element, name: string, value: string | undefined): void {
  if (value) control.setAttribute(name, value);
  else control.removeAttribute(name);
}
