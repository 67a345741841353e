// Who one is to the broker, and what one may do: screens offer that, and say of the rest why not.
import { enc, at, useLoad } from './api.js';

// useWho is who one is by a session (see the call "session"); null while that is not known. While the broker has no users, administrator
// and monitors are true: it asks nobody.
export function useWho(session) {
  const s = session.data;
  const name = s?.hasUsers ? (s.loggedIn ? s.user : s.anonymous || '') : '';
  const own = useLoad(name ? `/v1/users/${enc(name)}` : null, 15000);
  if (!s) return null;
  const who = { name, anonymous: !!name && !s.loggedIn, hasUsers: s.hasUsers, loggedIn: s.loggedIn, until: s.until, tags: [], rights: {}, reload: own.reload };
  if (!s.hasUsers) return { ...who, administrator: true, monitors: true };
  if (!name) return who;
  if (!own.data) return own.error && own.error.status !== 401 ? { ...who, error: own.error } : null;
  const tags = who.anonymous ? [] : own.data.tags; // whoever comes without a password administrates nothing
  const administrator = tags.includes('administrator');
  return { ...who, tags, administrator, monitors: administrator || tags.includes('monitoring'), rights: Object.fromEntries(own.data.rights.map((r) => [r.namespace, r])) };
}

// locked is why one may change nothing at all; empty: one may.
const locked = (who) => (who.loggedIn ? '' : who.hasUsers ? 'Log in to change anything' : 'The console is read-only: unlock it, or log in, to change anything');

const verbs = { configure: 'make, change or delete', write: 'publish to', read: 'read' };

// canIn says what one may do in a namespace, with some name or other: each is empty, or says why not.
export function canIn(who, ns) {
  const mine = who.rights[ns];
  const why = (right) => {
    if (locked(who) || !who.hasUsers) return locked(who);
    if (!mine) return `User ${who.name} has no rights in namespace ${ns}`;
    return mine[right] ? '' : `User ${who.name} may ${verbs[right]} nothing in namespace ${ns}`;
  };
  return { configure: why('configure'), write: why('write'), read: why('read') };
}

// useCan says the same of one name. The broker knows, for only it reads expressions as they are meant.
export function useCan(who, ns, name) {
  const asks = who.hasUsers && who.loggedIn && name;
  const rights = useLoad(asks ? at(ns, `/rights/${enc(name)}`) : null, 15000);
  const can = canIn(who, ns);
  if (!asks) return can;
  const why = (right) => can[right] || (rights.data ? (rights.data[right] ? '' : `User ${who.name} may not ${verbs[right]} ${name}`) : rights.error?.message || 'One moment');
  return { configure: why('configure'), write: why('write'), read: why('read') };
}
