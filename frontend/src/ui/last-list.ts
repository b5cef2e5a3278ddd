/** The list as it was left, so that "back to the cards" returns to its search, page and order. */
export const lastList = { href: '/admin/cards', openedCard: '' };
