// The fits of rbp.stats.power_law and rbp.stats.offset_law, for the explorer: same models, same intervals.
"use strict";

const fits = (() => {
  // ── Student's t: by the incomplete beta function (continued fraction, modified Lentz)

  const LANCZOS = [0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];

  function lnGamma(z) {
    const x = z - 1, t = x + 7.5;
    const sum = LANCZOS.reduce((total, c, i) => total + (i ? c / (x + i) : c), 0);
    return 0.5 * Math.log(2 * Math.PI) + (x + 0.5) * Math.log(t) - t + Math.log(sum);
  }

  function fraction(a, b, x) {
    const tiny = 1e-300;
    let c = 1, d = 1 / (1 - (a + b) * x / (a + 1) || tiny), h = d;
    for (let m = 1; m < 1000; m += 1) {
      for (const step of [m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
        -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))]) {
        d = 1 / (1 + step * d || tiny);
        c = 1 + step / c || tiny;
        h *= c * d;
      }
      if (Math.abs(c * d - 1) < 1e-16) break;
    }
    return h;
  }

  function betaInc(a, b, x) {
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    const front = Math.exp(lnGamma(a + b) - lnGamma(a) - lnGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * fraction(a, b, x) / a : 1 - front * fraction(b, a, 1 - x) / b;
  }

  // The share of the distribution beyond t, on one side.
  const tail = (t, df) => 0.5 * betaInc(df / 2, 0.5, df / (df + t * t));

  function tQuantile(p, df) {
    const wanted = 1 - p;
    let low = 0, high = 1;
    while (tail(high, df) > wanted) high *= 2;
    return root((t) => Math.log(tail(t, df) / wanted), low, high);
  }

  // Where a function that changes its sign between two places is 0 (bisection and secants: Brent's method).
  function root(f, from, to) {
    let a = from, b = to, fa = f(a), fb = f(b), c = a, fc = fa, d = b - a, e = d;
    for (let i = 0; i < 200; i += 1) {
      if (fb * fc > 0) { c = a; fc = fa; d = b - a; e = d; }
      if (Math.abs(fc) < Math.abs(fb)) { a = b; b = c; c = a; fa = fb; fb = fc; fc = fa; }
      const close = 2 * Number.EPSILON * Math.abs(b) + 1e-15, half = (c - b) / 2;
      if (Math.abs(half) <= close || fb === 0) return b;
      if (Math.abs(e) >= close && Math.abs(fa) > Math.abs(fb)) {
        const s = fb / fa;
        let p, q;
        if (a === c) { p = 2 * half * s; q = 1 - s; } else {
          const r = fb / fc, v = fa / fc;
          p = s * (2 * half * v * (v - r) - (b - a) * (r - 1)); q = (v - 1) * (r - 1) * (s - 1);
        }
        if (p > 0) q = -q; else p = -p;
        if (2 * p < Math.min(3 * half * q - Math.abs(close * q), Math.abs(e * q))) { e = d; d = p / q; } else { d = half; e = half; }
      } else { d = half; e = half; }
      a = b; fa = fb;
      b += Math.abs(d) > close ? d : Math.sign(half) * close;
      fb = f(b);
    }
    return b;
  }

  // ── y = A S^(-alpha), by least squares of ln y; weights are those of ln y

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const dot = (...lists) => sum(lists[0].map((_, i) => lists.reduce((product, list) => product * list[i], 1)));

  function check(points, least) {
    const wrong = points.find(({ size, value }) => !(size > 0 && value > 0 && Number.isFinite(size) && Number.isFinite(value)));
    if (wrong) throw new Error("a size or a value is not positive");
    if (points.length < least) throw new Error(`${points.length} points are too few: this fit needs at least ${least}`);
    if (new Set(points.map(({ size }) => size)).size < 3) throw new Error("this fit needs at least 3 different sizes");
    const logs = points.map(({ value }) => Math.log(value));
    if (Math.max(...logs) - Math.min(...logs) < 1e-12) throw new Error("the values do not vary: there is no law to fit");
  }

  // points: {size, value, variance (of value; for a weighted fit)}. Gives what PowerLawFit has, and predict(size).
  function power(points, level = 0.95, weighted = false) {
    check(points, 3);
    const n = points.length, df = n - 2, logs = points.map(({ size }) => Math.log(size));
    const centre = sum(logs) / n, x = logs.map((each) => each - centre), y = points.map(({ value }) => Math.log(value));
    const w = points.map(({ value, variance }) => {
      if (!weighted) return 1;
      if (!(variance > 0)) throw new Error("a weighted fit needs the tokens of every point");
      return value * value / variance;
    });
    const total = sum(w), mx = dot(w, x) / total, my = dot(w, y) / total;
    const dx = x.map((each) => each - mx), sxx = dot(w, dx, dx);
    const slope = dot(w, dx, y.map((each) => each - my)) / sxx;
    const resid = y.map((each, i) => each - my - slope * dx[i]);
    const ssr = dot(w, resid, resid), tss = dot(w, y.map((each) => (each - my) ** 2));
    const scale = ssr / df, t = tQuantile((1 + level) / 2, df), se = Math.sqrt(scale / sxx);
    const at = (size) => {
      const place = Math.log(size) - centre - mx, mean = my + slope * place;
      return { mean, variance: scale * (1 / total + place * place / sxx) };
    };
    const noise = weighted ? sum(w.map((each) => 1 / each)) / n : 1;
    const origin = at(1), half = t * Math.sqrt(origin.variance);
    return {
      alpha: -slope, alpha_low: -slope - t * se, alpha_high: -slope + t * se, alpha_se: se,
      prefactor: Math.exp(origin.mean), prefactor_low: Math.exp(origin.mean - half), prefactor_high: Math.exp(origin.mean + half),
      r_squared: 1 - ssr / tss, residual_se: Math.sqrt(dot(resid, resid) / df), scale: weighted ? scale : null, n, df, level, weak: n <= 4,
      predict(size) {
        const { mean, variance } = at(size), line = t * Math.sqrt(variance), one = t * Math.sqrt(variance + scale * noise);
        return { size, value: Math.exp(mean), mean_low: Math.exp(mean - line), mean_high: Math.exp(mean + line),
          low: Math.exp(mean - one), high: Math.exp(mean + one) };
      },
    };
  }

  // ── y = E + A S^(-alpha), E >= 0, by least squares of ln y, with profile intervals

  const logAdd = (a, b) => (a === -Infinity ? b : b === -Infinity ? a : Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b))));
  const logistic = (z) => (z >= 0 ? 1 / (1 + Math.exp(-z)) : Math.exp(z) / (1 + Math.exp(z)));

  function solve(matrix, vector) {
    const n = vector.length, rows = matrix.map((row, i) => [...row, vector[i]]);
    for (let i = 0; i < n; i += 1) {
      const pivot = rows.slice(i).reduce((best, row, j) => (Math.abs(row[i]) > Math.abs(rows[best][i]) ? i + j : best), i);
      [rows[i], rows[pivot]] = [rows[pivot], rows[i]];
      if (rows[i][i] === 0) return null;
      for (let j = i + 1; j < n; j += 1) {
        const factor = rows[j][i] / rows[i][i];
        for (let k = i; k <= n; k += 1) rows[j][k] -= factor * rows[i][k];
      }
    }
    const found = Array(n).fill(0);
    for (let i = n - 1; i >= 0; i -= 1) found[i] = (rows[i][n] - sum(found.map((each, k) => (k > i ? rows[i][k] * each : 0)))) / rows[i][i];
    return found;
  }

  // The inverse of a symmetric matrix, or Moore and Penrose's where it has none: by Jacobi's rotations.
  function pseudoInverse(matrix) {
    const n = matrix.length, a = matrix.map((row) => [...row]), v = a.map((_, i) => a.map((__, j) => Number(i === j)));
    for (let sweep = 0; sweep < 60; sweep += 1) {
      for (let i = 0; i < n; i += 1) {
        for (let j = i + 1; j < n; j += 1) {
          if (a[i][j] === 0) continue;
          const theta = (a[j][j] - a[i][i]) / (2 * a[i][j]);
          const t = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.hypot(theta, 1)), c = 1 / Math.hypot(t, 1), s = t * c;
          for (const rows of [a, v]) for (const row of rows) [row[i], row[j]] = [c * row[i] - s * row[j], s * row[i] + c * row[j]];
          for (let k = 0; k < n; k += 1) [a[i][k], a[j][k]] = [c * a[i][k] - s * a[j][k], s * a[i][k] + c * a[j][k]];
        }
      }
    }
    const values = a.map((row, i) => row[i]), least = 1e-15 * Math.max(...values.map(Math.abs));
    const inverse = values.map((each) => (Math.abs(each) > least ? 1 / each : 0));
    return v.map((one) => v.map((other) => sum(inverse.map((each, k) => each * one[k] * other[k]))));
  }

  function offset(points, level = 0.95) {
    check(points, 4);
    const n = points.length, df = n - 3, logs = points.map(({ size }) => Math.log(size)), centre = sum(logs) / n;
    const lnUnit = sum(points.map(({ value }) => Math.log(value))) / n, unit = Math.exp(lnUnit);
    // Points of one size are one point, their mean, which counts as often; how they differ, no law can mend.
    const sizes = new Map();
    points.forEach(({ size, value }) => sizes.set(size, [...(sizes.get(size) ?? []), Math.log(value) - lnUnit]));
    const x = [...sizes.keys()].map((size) => Math.log(size) - centre), groups = [...sizes.values()];
    const w = groups.map((group) => group.length), y = groups.map((group) => sum(group) / group.length);
    const within = sum(groups.flatMap((group, i) => group.map((each) => (each - y[i]) ** 2)));
    // A point is [ln A at the centre, alpha, ln E], in units of the values' geometric mean.
    const law = (p, at) => logAdd(p[0] - p[1] * at, p[2]);
    const rss = (p) => { const all = within + sum(x.map((at, i) => w[i] * (law(p, at) - y[i]) ** 2)); return Number.isFinite(all) ? all : Infinity; };
    const line = (values) => {
      const mean = dot(w, values) / n, slope = dot(w, x, values) / dot(w, x, x);
      return [mean, -slope];
    };
    const pure = [...line(y), -Infinity], least = n * 1e-24;

    function polish(start, free) {
      let p = [...start], best = rss(p), damping = 1e-3;
      for (let step = 0; step < 300 && damping < 1e14; step += 1) {
        const away = x.map((at, i) => law(p, at) - y[i]);
        const share = x.map((at) => logistic(p[0] - p[1] * at - p[2]));
        const columns = [share, share.map((each, i) => -each * x[i]), share.map((each) => 1 - each)].filter((_, i) => free.includes(i));
        const gradient = columns.map((column) => -dot(w, column, away));
        const normal = columns.map((one) => columns.map((other) => dot(w, one, other)));
        const move = solve(normal.map((row, i) => row.map((each, j) => (i === j ? each * (1 + damping) + 1e-300 : each))), gradient);
        if (!move) break;
        const next = [...p];
        free.forEach((column, i) => { next[column] += move[i]; });
        const found = rss(next);
        if (found <= best) {
          const gain = best - found;
          p = next; best = found; damping = Math.max(damping / 10, 1e-12);
          if (gain <= 1e-17 * best && Math.max(...move.map(Math.abs)) < 1e-12) break;
        } else damping *= 10;
      }
      return p;
    }

    // From a point near the optimum to the optimum: Newton's steps with the exact second derivatives, which find the
    // floor of a narrow valley where those of polish creep along it. Where values are equal to rounding, the step
    // that lowers the slope is the better one.
    function settle(start) {
      const slope = (p) => {
        const away = x.map((at, i) => w[i] * (law(p, at) - y[i])), share = x.map((at) => logistic(p[0] - p[1] * at - p[2]));
        const columns = [share, share.map((each, i) => -each * x[i]), share.map((each) => 1 - each)];
        const mixing = [x.map(() => 1), x.map((at) => -at), x.map(() => -1)], bend = share.map((each, i) => away[i] * each * (1 - each));
        return { gradient: columns.map((column) => -dot(column, away)), normal: columns.map((one) => columns.map((other) => dot(w, one, other))),
          hessian: columns.map((one, i) => columns.map((other, j) => dot(w, one, other) + dot(bend, mixing[i], mixing[j]))) };
      };
      let p = start, best = rss(p), here = slope(p), damping = 0;
      for (let step = 0; step < 200 && damping < 1e8; step += 1) {
        const move = solve(here.hessian.map((row, i) => row.map((each, j) => each + (i === j ? damping * here.normal[i][i] : 0))), here.gradient);
        const next = move?.map((each, i) => p[i] + each), found = move ? rss(next) : Infinity, there = move && slope(next);
        const steep = ({ gradient }) => Math.max(...gradient.map(Math.abs));
        if (found < best * (1 - 1e-13) || (found <= best * (1 + 1e-13) && steep(there) < steep(here))) {
          p = next; best = found; here = there; damping = damping < 1e-9 ? 0 : damping / 10;
        } else damping = Math.max(10 * damping, 1e-9);
      }
      return p;
    }

    const distinct = [...x].sort((a, b) => a - b), reach = distinct.at(-1) - distinct[0];
    const rising = -40 / (distinct.at(-1) - distinct.at(-2)), steepest = 40 / (distinct[1] - distinct[0]);
    const variance = (values) => { const mean = dot(w, values) / n; return dot(w, values.map((each) => (each - mean) ** 2)) / n; };

    // The best point with alpha held: only the mix q = ln(E/A) is searched, the common factor is a mean.
    function mix(alpha) {
      const misfit = (q) => y.map((each, i) => each - logAdd(-alpha * x[i], q));
      const places = x.flatMap((at) => Array.from({ length: 31 }, (_, i) => -alpha * at + i - 15)).sort((a, b) => a - b);
      const spread = places.map((q) => variance(misfit(q)));
      const at = spread.indexOf(Math.min(...spread));
      let [low, high] = [places[Math.max(at - 1, 0)], places[Math.min(at + 1, places.length - 1)]];
      const ratio = (Math.sqrt(5) - 1) / 2;
      let [one, two] = [high - ratio * (high - low), low + ratio * (high - low)];
      let [f1, f2] = [variance(misfit(one)), variance(misfit(two))];
      for (let i = 0; i < 90; i += 1) {
        if (f1 < f2) { high = two; two = one; f2 = f1; one = high - ratio * (high - low); f1 = variance(misfit(one)); }
        else { low = one; one = two; f1 = f2; two = low + ratio * (high - low); f2 = variance(misfit(two)); }
      }
      const mixes = [(low + high) / 2, places[at], -Infinity], fitsOf = mixes.map((q) => variance(misfit(q)));
      const q = mixes[fitsOf.indexOf(Math.min(...fitsOf))], shift = dot(w, misfit(q)) / n;
      const point = [shift, alpha, shift + q];
      return { point, rss: Math.min(rss(point), within + n * variance(y)) };
    }

    const starts = [];
    for (const [sign, end] of [[1, steepest], [-1, -rising]]) {
      for (let i = 0; i < 8; i += 1) starts.push(sign * (0.1 / reach) * (end * reach / 0.1) ** (i / 7));
    }
    const polished = starts.map((alpha) => mix(alpha).point).filter((p) => Number.isFinite(p[2])).map((p) => polish(p, [0, 1, 2]));
    const ranked = [pure, ...polished].sort((a, b) => rss(a) - rss(b));
    let point = ranked[0], found = rss(point);
    if (rss(pure) <= found * (1 + 1e-9) + least) { point = pure; found = rss(pure); }
    else { point = settle(point); found = rss(point); }

    const atAlpha = (alpha) => mix(alpha).rss;
    function atOffset(e) {
      if (e === 0) return rss(pure);
      const held = Math.log(e), constant = within + dot(w, y.map((each) => (each - held) ** 2));
      const above = line(y.map((each) => Math.log(Math.max(Math.exp(each) - e, 0.01 * Math.exp(each)))));
      const begin = [above, ...ranked.slice(0, 2).map((p) => [p[0], p[1]])];
      return Math.min(constant, ...begin.map((start) => rss(polish([...start, held], [0, 1]))));
    }
    const t = tQuantile((1 + level) / 2, df), cut = Math.max(found, least) * (1 + t * t / df);
    // The outermost crossing of the cut from the best place to the far one.
    function edge(profile, best, far) {
      let outside = far;
      for (let halving = 0; halving < 60; halving += 1) {
        const inside = best + (far - best) / 2 ** halving;
        if (profile(inside) <= cut) return halving === 0 ? far : root((at) => profile(at) - cut, inside, outside);
        outside = inside;
      }
      return best;
    }
    let largest = Math.exp(Math.max(...points.map(({ value }) => Math.log(value) - lnUnit)));
    while (atOffset(largest) <= cut) largest *= 2;
    const e = Math.exp(point[2]), alpha = point[1];
    const low = edge(atAlpha, alpha, Math.min(rising, alpha)), high = edge(atAlpha, alpha, Math.max(steepest, alpha));
    // Derivatives by ln A, alpha and E (not ln E: they exist at E = 0), for intervals by the delta method.
    const slopes = (at) => {
      const share = logistic(point[0] - point[1] * at - point[2]);
      return [share, -share * at, Math.exp(-law(point, at))];
    };
    const jacobian = x.map(slopes), both = [0, 1, 2];
    const spread = pseudoInverse(both.map((i) => both.map((j) => dot(w, jacobian.map((row) => row[i] * row[j])))));
    return {
      offset: unit * e, offset_low: unit * edge(atOffset, e, 0), offset_high: unit * edge(atOffset, e, largest),
      alpha, alpha_low: low <= rising ? -Infinity : low, alpha_high: high >= steepest ? Infinity : high,
      prefactor: unit * Math.exp(point[0] + alpha * centre), rss: found, n, df, level, weak: n <= 4,
      predict(size) {
        const at = Math.log(size) - centre, mean = law(point, at), slope = slopes(at);
        const variance = found / df * sum(both.flatMap((i) => both.map((j) => slope[i] * spread[i][j] * slope[j])));
        const half = t * Math.sqrt(Math.max(variance, 0)), one = t * Math.sqrt(Math.max(variance, 0) + found / df);
        const value = (ln) => unit * Math.exp(ln);
        return { size, value: value(mean), mean_low: value(mean - half), mean_high: value(mean + half),
          low: value(mean - one), high: value(mean + one) };
      },
    };
  }

  return { power, offset };
})();
