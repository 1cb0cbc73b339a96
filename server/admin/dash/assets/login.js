// A link can have the token behind a #, which browsers send nowhere: it is put into the form, and taken out of the address.
"use strict";
if (location.hash.length > 1) {
  document.getElementById("token").value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  document.getElementById("login").requestSubmit();
}
