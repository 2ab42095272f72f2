// npm's @sd-jwt/sd-jwt-vc: as @sd-jwt/core, on which it builds, with SDJwtVcInstance.
import { SDJwtVcInstance } from '@sd-jwt/sd-jwt-vc';
import { serve } from './adapter.mjs';
import { functionsOf } from './core.mjs';

await serve(functionsOf(SDJwtVcInstance));
