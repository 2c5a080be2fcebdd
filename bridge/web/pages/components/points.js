// Many points on a plane, drawn by WebGL: pan, zoom, pick, lasso. Libraries for this build on regl, which makes code at run
// time (`new Function`), and the policy of the pages refuses that.

const MOTION_MS = 150; // after the last motion, all points are drawn
const [QUICK_MS, SLOW_MS] = [22, 40]; // frames that take less can have more points, those that take longer have too many
const [FIRST, FEWEST] = [20_000, 2000]; // points of a frame in motion

const VERTEX = `#version 300 es
in vec2 place; in vec3 colour; in float big;
uniform vec2 centre; uniform vec2 scale; uniform float size;
out vec3 shade; out float width;
void main() {
  gl_Position = vec4((place - centre) * scale, 0.0, 1.0);
  gl_PointSize = size * big;
  width = size * big;
  shade = colour;
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec3 shade; in float width; out vec4 ink;
void main() {
  vec2 at = gl_PointCoord - 0.5;
  float inside = clamp((0.5 - length(at)) * width, 0.0, 1.0);
  ink = vec4(shade * inside, inside);
}`;

export class Points {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    const gl = canvas.getContext("webgl2", { antialias: false, preserveDrawingBuffer: true });
    if (!gl) throw new Error("the map needs WebGL 2, which this browser does not have here");
    this.gl = gl;
    this.program = link(gl);
    this.centre = [0, 0];
    this.zoom = 1;
    this.count = 0;
    this.most = FIRST;
    this.movedAt = -Infinity;
    this.lastFrame = 0;
    /** @type {Float32Array} */
    this.places = new Float32Array();
    this.buffers = ["place", "colour", "big"].map((name) => {
      const buffer = gl.createBuffer();
      const at = gl.getAttribLocation(this.program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, { place: 2, colour: 3, big: 1 }[name] || 1, gl.FLOAT, false, 0, 0);
      return buffer;
    });
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  /**
   * @param {number[]} x
   * @param {number[]} y
   */
  setPlaces(x, y) {
    this.count = x.length;
    this.places = new Float32Array(2 * x.length);
    const bounds = [Infinity, -Infinity, Infinity, -Infinity];
    for (let at = 0; at < x.length; at += 1) {
      this.places[2 * at] = x[at];
      this.places[2 * at + 1] = y[at];
      bounds[0] = Math.min(bounds[0], x[at]);
      bounds[1] = Math.max(bounds[1], x[at]);
      bounds[2] = Math.min(bounds[2], y[at]);
      bounds[3] = Math.max(bounds[3], y[at]);
    }
    this.centre = x.length ? [(bounds[0] + bounds[1]) / 2, (bounds[2] + bounds[3]) / 2] : [0, 0];
    this.unit = 1.9 / Math.max(1e-9, bounds[1] - bounds[0], bounds[3] - bounds[2]);
    this.zoom = 1;
    this.load(0, this.places);
    this.gl.bufferData(this.gl.ELEMENT_ARRAY_BUFFER, shuffledOrder(this.count), this.gl.STATIC_DRAW);
  }

  /** @param {Float32Array} colours three numbers per point @param {Float32Array} big one */
  setLooks(colours, big) {
    this.load(1, colours);
    this.load(2, big);
  }

  /** @param {number} which @param {Float32Array} data */
  load(which, data) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.buffers[which]);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, data, this.gl.DYNAMIC_DRAW);
  }

  get scale() {
    const { clientWidth: wide, clientHeight: tall } = this.canvas;
    const factor = (this.unit || 1) * this.zoom;
    const least = Math.min(wide, tall);
    return [(factor * least) / wide, (factor * least) / tall];
  }

  /** @param {number} [count] so many of the points, which lie all over the plane */
  draw(count = this.count) {
    const { gl, canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const [wide, tall] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (canvas.width !== wide || canvas.height !== tall) {
      canvas.width = wide;
      canvas.height = tall;
    }
    gl.viewport(0, 0, wide, tall);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.useProgram(this.program);
    gl.uniform2fv(gl.getUniformLocation(this.program, "centre"), this.centre);
    gl.uniform2fv(gl.getUniformLocation(this.program, "scale"), this.scale);
    const size = Math.max(2.5, Math.min(9, 160 / Math.sqrt(this.count + 1))) * Math.sqrt(this.zoom) * ratio;
    gl.uniform1f(gl.getUniformLocation(this.program, "size"), Math.min(18 * ratio, size));
    gl.drawElements(gl.POINTS, Math.min(count, this.count), gl.UNSIGNED_INT, 0);
  }

  /** Draw the plane as it is moved: in motion as many points as leave it smooth, then all. */
  move() {
    const isResting = !this.lastFrame;
    this.movedAt = performance.now();
    if (!isResting) return;
    const frame = (/** @type {number} */ now) => {
      if (this.lastFrame) this.most = pointsOfNextFrame(this.most, now - this.lastFrame, this.count);
      this.lastFrame = performance.now() - this.movedAt > MOTION_MS ? 0 : now;
      this.draw(this.lastFrame ? this.most : this.count);
      if (this.lastFrame) requestAnimationFrame(frame);
    };
    this.lastFrame = performance.now();
    requestAnimationFrame(frame);
  }

  /** Where a point of the plane is on the canvas. @param {number} index @returns {[number, number]} */
  onScreen(index) {
    const [sx, sy] = this.scale;
    return [
      (((this.places[2 * index] - this.centre[0]) * sx + 1) / 2) * this.canvas.clientWidth,
      ((1 - (this.places[2 * index + 1] - this.centre[1]) * sy) / 2) * this.canvas.clientHeight,
    ];
  }

  /** The point that is nearest, within some pixels; -1 for none. @param {number} x @param {number} y @param {number} [within] */
  nearest(x, y, within = 9) {
    let found = -1;
    let best = within * within;
    for (let at = 0; at < this.count; at += 1) {
      const [px, py] = this.onScreen(at);
      const apart = (px - x) ** 2 + (py - y) ** 2;
      if (apart < best) {
        best = apart;
        found = at;
      }
    }
    return found;
  }

  /** The points inside of a line around them, in pixels. @param {[number, number][]} line */
  inside(line) {
    const found = [];
    for (let at = 0; at < this.count; at += 1) if (isInside(this.onScreen(at), line)) found.push(at);
    return found;
  }

  /** @param {number} dx pixels @param {number} dy */
  pan(dx, dy) {
    const [sx, sy] = this.scale;
    this.centre[0] -= (2 * dx) / this.canvas.clientWidth / sx;
    this.centre[1] += (2 * dy) / this.canvas.clientHeight / sy;
    this.move();
  }

  /** Zoom, with what is at a place of the canvas staying there. @param {number} factor @param {number} x @param {number} y */
  zoomAt(factor, x, y) {
    const before = this.scale;
    this.zoom = Math.max(0.5, Math.min(500, this.zoom * factor));
    const after = this.scale;
    const [nx, ny] = [(2 * x) / this.canvas.clientWidth - 1, 1 - (2 * y) / this.canvas.clientHeight];
    this.centre[0] += nx / before[0] - nx / after[0];
    this.centre[1] += ny / before[1] - ny / after[1];
    this.move();
  }
}

/**
 * How many points the next frame of a motion has.
 * @param {number} count those of the last one @param {number} spent its milliseconds @param {number} all
 */
export function pointsOfNextFrame(count, spent, all) {
  if (spent > SLOW_MS) return Math.max(FEWEST, Math.floor(count / 2));
  return spent < QUICK_MS ? Math.min(Math.max(all, FEWEST), Math.ceil(count * 1.25)) : count;
}

/** The numbers below `count` in a random order, so that its first ones stand for all. @param {number} count */
export function shuffledOrder(count) {
  const order = Uint32Array.from({ length: count }, (_, at) => at);
  for (let at = count - 1; at > 0; at -= 1) {
    const other = Math.floor(Math.random() * (at + 1));
    [order[at], order[other]] = [order[other], order[at]];
  }
  return order;
}

/**
 * Whether a point is inside of a polygon.
 * @param {[number, number]} point
 * @param {[number, number][]} line
 */
export function isInside([x, y], line) {
  let inside = false;
  for (let at = 0, before = line.length - 1; at < line.length; before = at, at += 1) {
    const [ax, ay] = line[at];
    const [bx, by] = line[before];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}

/** @param {WebGL2RenderingContext} gl */
function link(gl) {
  const program = /** @type {WebGLProgram} */ (gl.createProgram());
  for (const [kind, text] of /** @type {[number, string][]} */ ([[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]])) {
    const shader = /** @type {WebGLShader} */ (gl.createShader(kind));
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(`WebGL: ${gl.getProgramInfoLog(program)}`);
  return program;
}
