// Byte-level BPE and GPT-NeoX in plain JavaScript: the arithmetic behind "Type a sentence". It touches no page.
"use strict";

const neox = (() => {
  // ── The tokenizer: as `tokenizers` reads tokenizer.json (ByteLevel, no prefix space)

  // GPT-2 spells each byte as a printable character: those that are printable as themselves, the others from U+0100 on.
  const BYTE_OF = new Map();
  for (let byte = 0, spare = 256; byte < 256; byte += 1) {
    const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    BYTE_OF.set(String.fromCharCode(printable ? byte : spare++), byte);
  }
  // \s of JavaScript takes U+FEFF for a space and U+0085 for none: Unicode's property does not.
  const SPACE = "\\p{White_Space}";
  const WORDS = new RegExp(`'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^${SPACE}\\p{L}\\p{N}]+|${SPACE}+(?!\\P{White_Space})|${SPACE}+`, "gu");

  class Tokenizer {
    // vocabulary: the tokens' spellings, by id; merges: the ids of the parts of each merge, one after the other, the
    // first merge first; special: the tokens that are found in a text as they are spelled.
    constructor({ vocabulary, merges, special }) {
      const ids = new Map(vocabulary.map((spelling, id) => [spelling, id]));
      this.special = special;
      this.specials = new Set(special.map((spelling) => ids.get(spelling)));
      this.bytes = vocabulary.map((spelling, id) => (this.specials.has(id) ? new TextEncoder().encode(spelling)
        : Uint8Array.from(spelling, (sign) => BYTE_OF.get(sign))));
      this.ofByte = new Array(256);
      for (const [spelling, byte] of BYTE_OF) this.ofByte[byte] = ids.get(spelling);
      this.ids = ids;
      this.merged = new Map(); // (left, right) -> [which merge, the token that it gives]
      for (let i = 0; i < merges.length; i += 2) {
        const [left, right] = [merges[i], merges[i + 1]];
        this.merged.set(left * vocabulary.length + right, [i, ids.get(vocabulary[left] + vocabulary[right])]);
      }
    }

    // The tokens of a text. A lone surrogate, which no UTF-8 text holds, is U+FFFD.
    encode(text) {
      const ids = [], whole = new TextDecoder("utf-8", { ignoreBOM: true }).decode(new TextEncoder().encode(text));
      let rest = whole;
      while (rest) {
        const places = this.special.map((spelling) => [rest.indexOf(spelling), spelling]).filter(([at]) => at >= 0);
        const [at, spelling] = places.sort((a, b) => a[0] - b[0])[0] ?? [rest.length, ""];
        for (const [word] of rest.slice(0, at).matchAll(WORDS)) ids.push(...this.word(word));
        if (spelling) ids.push(this.ids.get(spelling));
        rest = rest.slice(at + spelling.length);
      }
      return ids;
    }

    // The earliest merge of all pairs first, of equals the leftmost.
    word(text) {
      const parts = Array.from(new TextEncoder().encode(text), (byte) => this.ofByte[byte]);
      for (;;) {
        let best = null, place = 0;
        for (let i = 0; i + 1 < parts.length; i += 1) {
          const merge = this.merged.get(parts[i] * this.bytes.length + parts[i + 1]);
          if (merge && (!best || merge[0] < best[0])) { best = merge; place = i; }
        }
        if (!best) return parts;
        parts.splice(place, 2, best[1]);
      }
    }

    // What a reader sees of each token: a character that several tokens share is shown with the last of them.
    shown(ids) {
      const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
      return ids.map((id) => {
        const text = decoder.decode(this.bytes[id], { stream: true });
        if (text) return text;
        return `⟨${Array.from(this.bytes[id], (byte) => byte.toString(16)).join(" ")}⟩`;
      });
    }
  }

  // ── Weights: float16, all high bytes before all low bytes, deflated, in base64

  const HALVES = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits += 1) {
    const power = (bits >> 10) & 31, fraction = bits & 1023;
    const size = power === 0 ? fraction * 2 ** -24 : power === 31 ? (fraction ? NaN : Infinity) : (1 + fraction / 1024) * 2 ** (power - 15);
    HALVES[bits] = bits & 32768 ? -size : size;
  }

  const STEP = 1 << 20; // characters of base64 at a time; a multiple of four

  // tensors: [[name, values]] in the order of the data. Returns name -> Float32Array.
  async function unpack({ tensors, data }) {
    const inflate = new DecompressionStream("deflate"), writer = inflate.writable.getWriter();
    const feed = async () => {
      for (let at = 0; at < data.length; at += STEP) {
        const text = atob(data.slice(at, at + STEP)), bytes = new Uint8Array(text.length);
        for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
        await writer.write(bytes);
      }
      await writer.close();
    };
    const [planes] = await Promise.all([new Response(inflate.readable).arrayBuffer(), feed()]);
    const bytes = new Uint8Array(planes), count = bytes.length / 2, arrays = {};
    let from = 0;
    for (const [name, size] of tensors) {
      const values = arrays[name] = new Float32Array(size);
      for (let i = 0; i < size; i += 1) values[i] = HALVES[bytes[from + i] << 8 | bytes[count + from + i]];
      from += size;
    }
    return arrays;
  }

  // ── The model: hidden states in float64, weights as shipped

  // erf to 1.2e-7 of 1 − |erf| (Numerical Recipes' erfcc), which is float32's own rounding.
  const ERFC = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277];
  function gelu(x) {
    const z = Math.abs(x) * Math.SQRT1_2, t = 1 / (1 + 0.5 * z);
    let sum = 0;
    for (let i = ERFC.length - 1; i >= 0; i -= 1) sum = sum * t + ERFC[i];
    const tail = t * Math.exp(sum - z * z); // erfc(z)
    return x >= 0 ? x * (1 - 0.5 * tail) : x * 0.5 * tail;
  }

  // out[i] = sum_j weight[i, j] x[j] + bias[i]; four rows at once, which do not wait for each other's sums.
  function product(out, weight, x, bias) {
    const columns = x.length, rows = out.length;
    let i = 0;
    for (; i + 3 < rows; i += 4) {
      const p = i * columns, q = p + columns, r = q + columns, s = r + columns;
      let a = 0, b = 0, c = 0, d = 0;
      for (let j = 0; j < columns; j += 1) {
        const value = x[j];
        a += weight[p + j] * value; b += weight[q + j] * value; c += weight[r + j] * value; d += weight[s + j] * value;
      }
      out[i] = a; out[i + 1] = b; out[i + 2] = c; out[i + 3] = d;
    }
    for (; i < rows; i += 1) {
      let sum = 0;
      for (let j = 0; j < columns; j += 1) sum += weight[i * columns + j] * x[j];
      out[i] = sum;
    }
    if (bias) for (let j = 0; j < rows; j += 1) out[j] += bias[j];
    return out;
  }

  function normalized(out, x, weight, bias, epsilon) {
    let mean = 0, variance = 0;
    for (let i = 0; i < x.length; i += 1) mean += x[i] / x.length;
    for (let i = 0; i < x.length; i += 1) variance += (x[i] - mean) ** 2 / x.length;
    const scale = 1 / Math.sqrt(variance + epsilon);
    for (let i = 0; i < x.length; i += 1) out[i] = (x[i] - mean) * scale * weight[i] + bias[i];
    return out;
  }

  class Model {
    // shape: vocabulary, width, inner, heads, layers, context (the most tokens), base (of the rotation), epsilon.
    constructor(shape, weights) {
      Object.assign(this, { shape, ids: [], logits: [] }); // logits[i]: of what follows the token i
      const { width, inner, heads, layers, context, base } = shape, part = (layer, name) => weights[`layers.${layer}.${name}`];
      this.embedding = weights["embed_in.weight"];
      this.head = weights["embed_out.weight"];
      this.last = [weights["final_layer_norm.weight"], weights["final_layer_norm.bias"]];
      this.layers = Array.from({ length: layers }, (_, i) => {
        const both = (name) => [part(i, `${name}.weight`), part(i, `${name}.bias`)];
        return {
          before: both("input_layernorm"), beforeInner: both("post_attention_layernorm"), mix: both("attention.query_key_value"),
          gather: both("attention.dense"), widen: both("mlp.dense_h_to_4h"), narrow: both("mlp.dense_4h_to_h"),
          keys: new Float64Array(context * width), values: new Float64Array(context * width),
        };
      });
      const size = width / heads;
      this.rates = Array.from({ length: size / 2 }, (_, i) => base ** (-2 * i / size));
      const buffer = (length) => new Float64Array(length);
      this.room = { x: buffer(width), normal: buffer(width), mixed: buffer(3 * width), seen: buffer(width), back: buffer(width),
        wide: buffer(inner), scores: buffer(context) };
    }

    // Forget what differs from `ids`: what their beginnings share stays computed.
    keep(ids) {
      let same = 0;
      while (same < this.ids.length && this.ids[same] === ids[same]) same += 1;
      this.ids.length = this.logits.length = same;
    }

    // Read one more token.
    read(id) {
      const { width, heads, epsilon, vocabulary } = this.shape, size = width / heads, half = size / 2, place = this.ids.length;
      const { x, normal, mixed, seen, back, wide, scores } = this.room;
      x.set(this.embedding.subarray(id * width, (id + 1) * width));
      for (const layer of this.layers) {
        product(mixed, layer.mix[0], normalized(normal, x, ...layer.before, epsilon), layer.mix[1]);
        for (let head = 0; head < heads; head += 1) {
          const query = 3 * size * head, key = query + size, from = head * size; // queries, keys, values of one head after another
          for (let i = 0; i < half; i += 1) { // rotate
            const angle = place * this.rates[i], cos = Math.cos(angle), sin = Math.sin(angle);
            for (const at of [query + i, key + i]) {
              const [first, second] = [mixed[at], mixed[at + half]];
              mixed[at] = first * cos - second * sin;
              mixed[at + half] = second * cos + first * sin;
            }
          }
          for (let i = 0; i < size; i += 1) {
            layer.keys[place * width + from + i] = mixed[key + i];
            layer.values[place * width + from + i] = mixed[key + size + i];
          }
          let highest = -Infinity, total = 0;
          for (let past = 0; past <= place; past += 1) {
            let score = 0;
            for (let i = 0; i < size; i += 1) score += mixed[query + i] * layer.keys[past * width + from + i];
            scores[past] = score / Math.sqrt(size);
            if (scores[past] > highest) highest = scores[past];
          }
          for (let past = 0; past <= place; past += 1) total += scores[past] = Math.exp(scores[past] - highest);
          for (let i = 0; i < size; i += 1) {
            let sum = 0;
            for (let past = 0; past <= place; past += 1) sum += scores[past] * layer.values[past * width + from + i];
            seen[from + i] = sum / total;
          }
        }
        product(wide, layer.widen[0], normalized(normal, x, ...layer.beforeInner, epsilon), layer.widen[1]); // beside attention
        for (let i = 0; i < wide.length; i += 1) wide[i] = gelu(wide[i]);
        product(back, layer.gather[0], seen, layer.gather[1]);
        for (let i = 0; i < width; i += 1) x[i] += back[i];
        product(back, layer.narrow[0], wide, layer.narrow[1]);
        for (let i = 0; i < width; i += 1) x[i] += back[i];
      }
      this.logits.push(product(new Float32Array(vocabulary), this.head, normalized(normal, x, ...this.last, epsilon), null));
      this.ids.push(id);
    }
  }

  // ── Measures of one token

  // The truth's rank: how many logits are at least its own (the paper's equation 3).
  function rank(logits, truth) {
    let count = 0;
    for (let i = 0; i < logits.length; i += 1) if (logits[i] >= logits[truth]) count += 1;
    return count;
  }

  // ln of the sum of exp(z / temperature): −ln p of a token is this less its own z / temperature.
  function logTotal(logits, temperature) {
    let highest = -Infinity, sum = 0;
    for (let i = 0; i < logits.length; i += 1) if (logits[i] > highest) highest = logits[i];
    for (let i = 0; i < logits.length; i += 1) sum += Math.exp((logits[i] - highest) / temperature);
    return Math.log(sum) + highest / temperature;
  }

  // The ids of the highest logits, the highest first; of equals the lowest id.
  function top(logits, count) {
    const highest = [];
    for (let id = 0; id < logits.length; id += 1) {
      if (highest.length === count && logits[id] <= logits[highest[count - 1]]) continue;
      let at = highest.length;
      while (at > 0 && logits[highest[at - 1]] < logits[id]) at -= 1;
      highest.splice(at, 0, id);
      if (highest.length > count) highest.pop();
    }
    return highest;
  }

  return { Tokenizer, Model, unpack, rank, logTotal, top };
})();
