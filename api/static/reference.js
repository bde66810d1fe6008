"use strict";

SwaggerUIBundle({
  url: "api/v0/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  docExpansion: "list",
  validatorUrl: null,
});
