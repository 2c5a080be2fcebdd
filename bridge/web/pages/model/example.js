// What a query or an example names: an episode or an upload, timesteps of it, or frames of one of its cameras.

const FORM = /^([^#@]*)(?:#([^#@]*))?(?:@(.*))?$/;

/**
 * @param {string} name UID, UID@START:STOP, UID#CAMERA@FRAME or UID#CAMERA@START:STOP
 * @returns {{ uid: string, camera: string | null, span: string | null }}
 */
export function parseExample(name) {
  const [, uid, camera = null, span = null] = FORM.exec(name) ?? ["", name];
  return { uid, camera, span };
}

/** Whether it is asked what cameras saw: by frames of an episode, or by a picture. @param {string} name */
export function isPicture(name) {
  return parseExample(name).camera !== null || name.startsWith("upload-picture-");
}

/** What a camera is called. @param {string} lane */
export function cameraName(lane) {
  return lane.split("/").slice(1).join("/") || lane;
}

/** The episodes of examples, without uploads. @param {string[]} names */
export function uidsOf(names) {
  return [...new Set(names.map((name) => parseExample(name).uid))].filter((uid) => uid && !uid.startsWith("upload-"));
}
