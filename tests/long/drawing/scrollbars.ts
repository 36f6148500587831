// @grafana/ui wants the class as the default, and gets all that the package exports.
export { Scrollbars as default } from './node_modules/@grafana/ui/node_modules/react-custom-scrollbars-2/lib/index.js';
