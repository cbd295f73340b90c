# ranks=1
import flash_attn_of_mine
