// Compares dashboards (the arguments) and expressions of alert rules (a JSON list
// on stdin) with Grafana's published types. Prints one line for each thing that
// the types do not have or do not allow, and then exits with 1.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Ajv from 'ajv';
import { createGenerator } from 'ts-json-schema-generator';

const here = dirname(fileURLToPath(import.meta.url));
const schema = createGenerator({
  path: join(here, 'types.ts'), type: 'Kinds', skipTypeCheck: true, additionalProperties: false, expose: 'none', topRef: false,
}).createSchema('Kinds');
const ajv = new Ajv({ allErrors: true, strict: false }).addSchema(schema, 'kinds');

const validator = (...path) => {
  const pointer = path.map((p) => `/properties/${p}`).join('');
  return ajv.getSchema(`kinds#${pointer}`);
};

let failures = 0;
const check = (where, validate, value) => {
  if (validate(value)) return;
  for (const e of validate.errors) {
    failures++;
    console.log(`${where}${e.instancePath}: ${e.message} ${JSON.stringify(e.params)}`);
  }
};

// Grafana publishes no types of the options of these kinds of panels.
const unpublished = ['alertlist'];

const unknownType = Object.assign(() => false, { errors: [{ instancePath: '/type', message: 'is not checked; add it to types.ts', params: {} }] });

for (const file of process.argv.slice(2)) {
  const dashboard = JSON.parse(readFileSync(file, 'utf8'));
  // The published type of an annotation's target is that of Grafana's own store;
  // its comment states that it should be a query. The keys of an annotation from a
  // Prometheus are the data source's own, and in none of the published types.
  for (const a of dashboard.annotations.list) {
    for (const key of ['target', 'expr', 'step', 'titleFormat', 'tagKeys']) delete a[key];
  }
  check(file, validator('dashboard'), dashboard);
  for (const p of dashboard.panels.flatMap((p) => [p, ...(p.panels ?? [])])) {
    if (p.type === 'row' || unpublished.includes(p.type)) continue;
    const where = `${file}, panel ${p.id} (${p.title})`;
    check(`${where} options`, validator('options', p.type) ?? unknownType, p.options);
    if (p.fieldConfig?.defaults.custom) {
      check(`${where} custom`, validator('custom', p.type) ?? unknownType, p.fieldConfig.defaults.custom);
    }
  }
}
for (const e of JSON.parse(readFileSync(0, 'utf8'))) {
  check(`expression ${e.refId}`, validator('expression', e.type) ?? unknownType, e);
}
process.exit(failures > 0 ? 1 : 0);
