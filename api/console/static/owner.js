// The token behind the # of the link goes into the form; the address forgets it.

const token = decodeURIComponent(location.hash.slice(1));
if (token) {
  history.replaceState(null, "", location.pathname);
  document.getElementById("token").value = token;
  document.querySelector("main button").focus();
}
