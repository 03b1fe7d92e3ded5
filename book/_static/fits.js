// The fit of rbp.laws.power, ln y by least squares, for the charts: the same line, the same intervals.
"use strict";

const fits = (() => {
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const dot = (some, others) => sum(some.map((each, i) => each * others[i]));

  function check(points) {
    if (points.some(({ value }) => !(value > 0))) throw new Error("a value is not positive");
    if (points.length < 3) throw new Error(`${points.length} points are too few: this fit needs at least 3`);
    if (new Set(points.map(({ size }) => size)).size < 3) throw new Error("this fit needs at least 3 different sizes");
    const logs = points.map(({ value }) => Math.log(value));
    if (Math.max(...logs) - Math.min(...logs) < 1e-12) throw new Error("the values do not vary: there is no law to fit");
  }

  // y = A S^(-alpha) through points {size, value}. quantiles: Student's t of the level, by degrees of freedom from 1 on.
  // Gives what PowerLawFit has, and predict(size); without quantiles the line alone, with no intervals.
  function power(points, quantiles = null) {
    check(points);
    const n = points.length, df = n - 2, logs = points.map(({ size }) => Math.log(size)), centre = sum(logs) / n;
    const x = logs.map((each) => each - centre), y = points.map(({ value }) => Math.log(value)), mean = sum(y) / n;
    const sxx = dot(x, x), slope = dot(x, y) / sxx, resid = y.map((each, i) => each - mean - slope * x[i]);
    const ssr = dot(resid, resid), scale = ssr / df, r_squared = 1 - ssr / sum(y.map((each) => (each - mean) ** 2));
    const at = (size) => mean + slope * (Math.log(size) - centre);
    const line = { alpha: -slope, r_squared, n, predict: (size) => ({ size, value: Math.exp(at(size)) }) };
    if (!quantiles) return line;
    const t = quantiles[df - 1], half = t * Math.sqrt(scale / sxx);
    return {
      ...line, alpha_low: -slope - half, alpha_high: -slope + half, weak: n <= 4,
      predict(size) {
        const middle = at(size), variance = scale * (1 / n + (Math.log(size) - centre) ** 2 / sxx);
        const band = t * Math.sqrt(variance), spread = t * Math.sqrt(variance + scale);
        return { size, value: Math.exp(middle), mean_low: Math.exp(middle - band), mean_high: Math.exp(middle + band),
          low: Math.exp(middle - spread), high: Math.exp(middle + spread) };
      },
    };
  }

  return { power };
})();
