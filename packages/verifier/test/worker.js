// The parts of the tests in a Worker: the name of a part and the vectors come as a POST request.
import { runPart } from "./parts.js";

export default {
  async fetch(request) {
    const { part, vectors } = await request.json();
    return Response.json(await runPart(part, vectors));
  },
};
