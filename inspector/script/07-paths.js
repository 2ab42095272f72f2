// Sets of claim paths.

const uniquePaths = (paths) => [...new Map(paths.map((path) => [path.key, path])).values()];
const overlaps = (some, others) => uniquePaths(some.flatMap((one) => others.map((other) => overlap(one, other)).filter(Boolean)));
