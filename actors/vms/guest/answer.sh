# Exits with the answer of request.sh.

exit "$answer"
