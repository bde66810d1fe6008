// One build through a client that openapi-typescript generated from the document.
// Usage: node drive.js URL TOKEN ORGANIZATION IR. It prints one JSON object.

import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Build = components["schemas"]["Build"];

const [baseUrl, token, org, pipeline_ir] = process.argv.slice(2) as [string, string, string, string];

const api = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

function given<T>({ data, error }: { data?: T; error?: { error: { code: string; message: string } } }): T {
  if (data === undefined) throw new Error(error ? `${error.error.code}: ${error.error.message}` : "nothing came");
  return data;
}

async function finished(pipeline: string, number: number): Promise<Build> {
  const final: Build["state"][] = ["passed", "failed", "canceled"];
  for (;;) {
    const build = given(
      await api.GET("/api/v0/organizations/{org}/pipelines/{pipeline}/builds/{number}", {
        params: { path: { org, pipeline, number } },
      }),
    );
    if (final.includes(build.state)) return build;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const pipeline = given(
  await api.POST("/api/v0/organizations/{org}/pipelines", {
    params: { path: { org } },
    body: { name: "From TypeScript", repository: "https://example.org/acme/demo.git", default_branch: "main" },
  }),
);
const where = { org, pipeline: pipeline.slug };
const { number } = given(
  await api.POST("/api/v0/organizations/{org}/pipelines/{pipeline}/builds", {
    params: { path: where },
    body: { branch: "main", commit: "c0ffee", pipeline_ir },
  }),
);
const build = await finished(pipeline.slug, number);
const { data: jobs } = given(
  await api.GET("/api/v0/organizations/{org}/pipelines/{pipeline}/builds/{number}/jobs", {
    params: { path: { ...where, number } },
  }),
);
const job = jobs[0];
if (!job) throw new Error("the build has no job");
const log = given(
  await api.GET("/api/v0/organizations/{org}/pipelines/{pipeline}/builds/{number}/jobs/{job_id}/log", {
    params: { path: { ...where, number, job_id: job.id } },
    parseAs: "text",
  }),
);
const { balance_cents } = given(await api.GET("/api/v0/billing/balance/{org}", { params: { path: { org } } }));
const { error } = await api.GET("/api/v0/organizations/{org}/pipelines/{pipeline}", {
  params: { path: { org, pipeline: "nothing" } },
});

console.log(
  JSON.stringify({ slug: pipeline.slug, state: build.state, exit: job.exit_code, log, balance_cents, error: error?.error.code }),
);
