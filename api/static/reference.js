"use strict";

SwaggerUIBundle({
  url: new URL("../../api/v0/openapi.json", document.currentScript.src).href,
  dom_id: "#reference",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  docExpansion: "list",
  validatorUrl: null,
});
